"""Time an engine that has nothing to do, on the whole grid: `python benchmarks/noop.py`.

The grid of params.yaml is built with the workflow tests' stand-ins in a temporary folder, so that
neither data nor training is needed. The bar for `dvc repro` is 4 s.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.workflow_project import Project, make_stub_project  # noqa: E402

BAR_SECONDS = 4.0
RUNS = 3
COMMANDS = {
    "dvc repro": ["dvc", "repro"],
    "dvc status": ["dvc", "status"],
    "snakemake --cores 2": ["snakemake", "--cores", "2"],
}


def main() -> None:
    """Build the grid once, then time each command and print a table."""
    with tempfile.TemporaryDirectory() as folder:
        project = make_grid(Path(folder) / "grid")
        started = time.perf_counter()
        ran = len(project.build(*COMMANDS["dvc repro"]))
        print(f"{ran} stages, first dvc repro {time.perf_counter() - started:.1f} s")
        print(f"nothing to do, best of {RUNS} (bar for dvc repro: {BAR_SECONDS:.0f} s)")
        for name, command in COMMANDS.items():
            print(f"  {name:<20} {min(measure(project, command) for _ in range(RUNS)):5.1f} s")


def make_grid(root: Path) -> Project:
    """Make a project of the repository's own params.yaml with stand-ins for its stages."""
    root.mkdir()
    project = make_stub_project(root)
    shutil.copy2(ROOT / "params.yaml", root)
    for name in list_inputs(yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"name: {name}\n", encoding="utf-8")
    return project


def list_inputs(params: Mapping[str, object]) -> list[str]:
    """Return the paths of the files that people write and the grid names."""
    sources, tables, cells = params["sources"], params["tables"], params["experiments"]
    assert isinstance(sources, list)
    assert isinstance(tables, list)
    assert isinstance(cells, dict)
    return [
        *(f"datasets/{name}.yaml" for name in sources),
        *(f"reports/published/{name}.yaml" for name in tables),
        *sorted({str(cell["model"]) for cell in cells.values()}),
    ]


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
