# Runs the DAG of dvc.yaml side by side: one rule a stage, no command of its own.
#   snakemake --cores 8 reports/glue.md
#   snakemake --profile profiles/slurm reports/glue.md
#   snakemake --cores 8 --config via=direct      # nodes that do not share .dvc
# DVC keeps the only state. A stage that it finds stale gets an input newer than its outputs.
import os
from pathlib import Path

from snakemake.exceptions import WorkflowError

from nlp_core import dag

root = Path(str(workflow.current_basedir))
via = config.get("via", "dvc")
if via not in ("dvc", "direct"):
    raise WorkflowError(f"--config via: found '{via}', expected dvc or direct.")
is_direct = via == "direct"
# A scheduler's jobs do not ask what is stale.
is_main = workflow.is_main_process
stages, stale = dag.load_status(root) if is_main else (dag.load_stages(root), {})
start = Path(".snakemake", "reglue_start")
exported = {
    path
    for stage in stages
    if stage.name.startswith("export")
    for path in stage.outputs
}
# A scheduler's jobs are started without `--cores`.
num_cores = workflow.resource_settings.cores or 1
has_gpu = os.environ.get("REGLUE_DEVICE", "cpu").startswith("cuda")
if is_main:
    dag.mark_start(start)


rule all:
    input:
        [
            path
            for stage in stages
            if stage.name.startswith("report")
            for path in stage.outputs
        ],


for stage in stages:
    # Exports are timed where they are read: that has the machine to itself.
    is_timed = bool(exported.intersection(stage.inputs))

    rule:
        name:
            stage.rule_name
        input:
            [*stage.inputs, *([str(start)] if stage.name in stale else [])],
        output:
            [directory(path) if dag.is_folder(path) else path for path in stage.outputs],
        threads: num_cores if is_timed else 1
        resources:
            mem_mb=stage.resources.count_memory,
            runtime=stage.resources.minutes,
            gpu=int(has_gpu and stage.resources.gpu),
            slurm_extra="--exclusive" if is_timed else "",
        params:
            command=(
                stage.command
                if is_direct
                else f"dvc --wait-for-lock repro --single-item {stage.name}"
            ),
        shell:
            "{params.command}"


if is_direct:

    onsuccess:
        dag.record_built(root, stages, start)

    onerror:
        dag.record_built(root, stages, start)
