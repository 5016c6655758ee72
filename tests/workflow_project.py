"""A copy of the project's workflow in a folder of its own, for the tests that run an engine."""

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
STUB = Path(__file__).resolve().parent / "stub"
WORKFLOW = ["dvc.yaml", "Snakefile", "workflow", "profiles"]
WORKFLOW += [".dvc/config", ".dvcignore", ".gitignore"]
OUTPUTS = ["data", "artifacts/cells", "results", "reports"]
STAGES = ["preprocess", "finetune", "teach", "evaluate", "report"]


@dataclass(frozen=True)
class Project:
    """A project's root and the commands a person types in it."""

    root: Path

    @property
    def environment(self) -> dict[str, str]:
        """Return this process's environment with our tools first and no settings of DVC's."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("DVC_")}
        tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        calls = str(self.root / "calls.log")
        return kept | {"PATH": tools, "DVC_NO_ANALYTICS": "1", "REGLUE_STUB_CALLS": calls}

    def run(self, *command: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """Run a command in the project and return it with what it wrote, whatever its exit code."""
        return subprocess.run(
            command,
            cwd=self.root,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def build(self, *command: str) -> list[str]:
        """Run a command that must succeed and return the stub stages that it ran, sorted."""
        done = self.run(*command)
        assert done.returncode == 0, done.stdout + done.stderr
        return self.take_calls()

    def take_calls(self) -> list[str]:
        """Return the stub stages run since the last call, sorted."""
        path = self.root / "calls.log"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return sorted(lines)

    def digest_outputs(self) -> dict[str, str]:
        """Return the sha256 of every file of every output.

        Hidden ones are Snakemake's marks, and what a killed node had half written.
        """
        paths = [path for folder in OUTPUTS for path in (self.root / folder).rglob("*")]
        names = {path: path.relative_to(self.root) for path in sorted(paths) if path.is_file()}
        return {
            name.as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path, name in names.items()
            if not any(part.startswith(".") for part in name.parts)
        }

    def read_lock(self) -> object:
        """Return what DVC has recorded; the order of its entries is the order of their ends."""
        return yaml.safe_load((self.root / "dvc.lock").read_text(encoding="utf-8"))

    def set_recipe(self, name: str, **values: object) -> None:
        """Change values of a recipe of the grid."""
        tables = {path: _read(path) for path in (self.root / "grid").iterdir()}
        (path,) = (path for path, table in tables.items() if name in table["recipes"])
        tables[path]["recipes"][name].update(values)
        _write(path, tables[path])

    def add_student(self) -> None:
        """Give the grid a teacher, a student and the table of both."""
        path = self.root / "params.yaml"
        params, small = _read(path), _read(self.root / "grid/small.yaml")
        alone = {**small["experiments"]["small_one"], "table": "pupils", "recipe": "young"}
        cell = "artifacts/cells/large/large_one"
        params["taught"]["words_taught"] = {"cell": cell, "data": "words"}
        _write(path, params)
        pupils = {"alone": alone, "young": {**alone, "data": "words_taught"}}
        grid = {"recipes": {"young": {"lr": 0.3}}, "experiments": pupils}
        _write(self.root / "grid/pupils.yaml", grid)
        name_tables(self.root)
        published = self.root / "reports/published/pupils.yaml"
        published.write_text("name: pupils\n", encoding="utf-8")

    def copy(self, root: Path) -> "Project":
        """Copy the whole project, with what is built, to another folder."""
        shutil.copytree(self.root, root, symlinks=True)
        return Project(root)


def copy_workflow(root: Path, *more: str) -> Project:
    """Copy the workflow files, and `more` of the repository, to `root` under a new Git."""
    for name in [*WORKFLOW, *more]:
        source, target = ROOT / name, root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, target)
    (root / "results/audit").mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "init", "--quiet", "."], cwd=root, check=True)
    return Project(root)


def make_stub_project(root: Path) -> Project:
    """Make a project of two small tables whose stages are cheap stand-ins."""
    project = copy_workflow(root)
    shutil.copy2(STUB / "params.yaml", root)
    shutil.copytree(STUB / "grid", root / "grid")
    name_tables(root)
    params = _read(STUB / "params.yaml")
    tables = {path.stem: _read(path) for path in (STUB / "grid").iterdir()}
    (root / "stages").mkdir()
    (root / "stages/__init__.py").touch()
    for stage in STAGES:
        shutil.copy2(STUB / "stage.py", root / "stages" / f"{stage}.py")
    models = [cell["model"] for table in tables.values() for cell in table["experiments"].values()]
    sources = [f"sources/{name}.yaml" for name in params["tasks"]]
    published = [f"reports/published/{name}.yaml" for name in tables]
    for path in {*models, *sources, *published}:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"name: {path}\n", encoding="utf-8")
    return project


def name_tables(root: Path) -> None:
    """Let dvc.yaml read the experiments of the files that are in grid/: it has no other cells."""
    workflow = _read(root / "dvc.yaml")
    paths = sorted((root / "grid").iterdir())
    tables = [path.stem for path in paths]
    workflow["vars"] = [{"tables": tables}, *(f"grid/{name}.yaml:experiments" for name in tables)]
    for section in ("pretrain", "ensemble", "export"):
        workflow["stages"].pop(section, None)
    _write(root / "dvc.yaml", workflow)


def _read(path: Path) -> dict[str, Any]:  # Any: YAML holds anything
    values = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(values, dict)
    return values


def _write(path: Path, values: dict[str, Any]) -> None:  # Any: YAML holds anything
    path.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
