"""Time an engine that has nothing to do, on the whole grid: `python benchmarks/noop.py`.

The grid is built with stubs of its stages in a temporary folder, so neither data nor training is
needed. Each is to take at most 4 s on an idle machine.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from nlp_core.dag import load_stages  # noqa: E402
from tests.workflow_project import Project, copy_workflow  # noqa: E402

BAR_SECONDS = 4.0
RUNS = 3
FIRST_SECONDS = 1800
COMMANDS = {
    "dvc repro": ["dvc", "repro"],
    "dvc status": ["dvc", "status"],
    "snakemake -n": ["snakemake", "-n"],
    "snakemake --cores 2": ["snakemake", "--cores", "2"],
}
STAND_IN = """
import json, os, sys
from pathlib import Path

command = " ".join(["python -m stages." + Path(__file__).stem, *sys.argv[1:]])
for name in json.loads(Path("outputs.json").read_text())[command]:
    path = Path(name) if Path(name).suffix else Path(name, "content")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(command)
with open(os.environ["REGLUE_STUB_CALLS"], "a") as file:
    file.write(command + "\\n")
"""


def main() -> None:
    """Build the grid once, then time each command."""
    with tempfile.TemporaryDirectory() as folder:
        project = make_grid(Path(folder))
        started = time.perf_counter()
        done = project.run(*COMMANDS["dvc repro"], timeout=FIRST_SECONDS)
        assert done.returncode == 0, done.stdout + done.stderr
        ran = len(project.take_calls())
        print(f"{ran} stages, first dvc repro {time.perf_counter() - started:.1f} s")
        print(f"nothing to do, best of {RUNS} (bar: {BAR_SECONDS:.0f} s)")
        for name, command in COMMANDS.items():
            print(f"  {name:<20} {min(measure(project, command) for _ in range(RUNS)):5.1f} s")


def make_grid(root: Path) -> Project:
    """Make a project of the repository's grid with stubs of its stages."""
    project = copy_workflow(root)
    shutil.copy2(ROOT / "params.yaml", root)
    shutil.copytree(ROOT / "grid", root / "grid")
    stages = load_stages(root)
    outputs = {stage.command: stage.outputs for stage in stages}
    (root / "outputs.json").write_text(json.dumps(outputs), encoding="utf-8")
    (root / "stages").mkdir()
    (root / "stages/__init__.py").touch()
    for command in outputs:
        name = command.split()[2].removeprefix("stages.")
        (root / "stages" / f"{name}.py").write_text(STAND_IN, encoding="utf-8")
    written = {path for paths in outputs.values() for path in paths}
    needed = {path for stage in stages for path in stage.inputs} - written
    for path in (path for path in needed if not (root / path).exists()):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"name: {path}\n", encoding="utf-8")
    return project


def measure(project: Project, command: list[str]) -> float:
    """Return the seconds of a command that must find nothing to do."""
    started = time.perf_counter()
    subprocess.run(
        command, cwd=project.root, env=project.environment, capture_output=True, check=True
    )
    seconds = time.perf_counter() - started
    assert project.take_calls() == [], "a stage ran"
    return seconds


if __name__ == "__main__":
    main()
