#!/bin/sh
# Print running, success or failed for a job of submit.sh, also for one that was killed.
#   status.sh JOB
set -u
if command -v bjobs >/dev/null; then
  answer=$(bjobs -noheader -o stat "$1" 2>&1)
else
  answer=$(qstat -x -f "$1" 2>&1)
fi
case $answer in
  DONE* | *"job_state = F"*"Exit_status = 0"*) echo success ;;
  EXIT* | *"job_state = F"*) echo failed ;;
  # forgotten by the scheduler; Snakemake then looks for the outputs
  *"is not found"* | *"Unknown Job Id"*) echo success ;;
  *) echo running ;;
esac
