#!/bin/sh
# Submit a job script to LSF or PBS and print the job's number, which Snakemake asks for.
#   submit.sh RULE CORES MEGABYTES MINUTES GPUS SCRIPT
set -eu
rule=$1 cores=$2 megabytes=$3 minutes=$4 gpus=$5 script=$6
logs=.snakemake/cluster_logs
mkdir -p "$logs"
if command -v bsub >/dev/null; then
  gpu=
  [ "$gpus" = 0 ] || gpu="-gpu num=$gpus"
  # bsub answers "Job <123> is submitted to queue <normal>." In a pipe its failure would be lost.
  # shellcheck disable=SC2086  # $gpu is two words or none.
  answer=$(bsub -J "$rule" -n "$cores" -M "${megabytes}MB" -R "rusage[mem=${megabytes}MB] span[hosts=1]" \
    -W "$minutes" $gpu -o "$logs/$rule.%J.log" <"$script")
  echo "$answer" | sed 's/[^<]*<\([^>]*\)>.*/\1/'
elif command -v qsub >/dev/null; then
  select="select=1:ncpus=$cores:mem=${megabytes}mb"
  [ "$gpus" = 0 ] || select="$select:ngpus=$gpus"
  walltime=$(printf '%02d:%02d:00' $((minutes / 60)) $((minutes % 60)))
  qsub -N "$(printf '%.15s' "$rule")" -l "$select" -l "walltime=$walltime" -V -j oe -o "$logs/" "$script"
else
  echo "submit.sh: neither bsub (LSF) nor qsub (PBS) is on PATH. Run this on a login node." >&2
  exit 2
fi
