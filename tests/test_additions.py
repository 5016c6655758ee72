"""A toy of each sort is added to a copy of the project and used.

It touches as many files as docs/architecture.md says.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from nlp_core import dag
from nlp_core.files import digest_file
from tests.fabricated import edit_json, make_cell, make_project
from tests.test_architecture import MOST_FILES
from tests.test_kinds import ROWS, TOY_KIND
from tests.tiny_source import ABOUT, REVIEWS, TASK
from tests.workflow_project import Project, copy_workflow

pytestmark = pytest.mark.slow

COPIED = [
    "nlp_core",
    "reglue_runtime",
    "stages",
    "params.yaml",
    "grid",
    "sources",
    ".dvc/.gitignore",
]
TOY_COMMAND = """'''`reglue toy`: play.

Examples:
    reglue toy
'''

GROUP = "look things up"
PLACE = 9


def add_arguments(parser):
    parser.add_argument("--times", type=int, default=1)


def run(options):
    print("toy " * options.times)
"""
TOY_METRIC = """

@register("toy", "ranking")
def measure_toy(predictions: Predictions) -> float:
    return len(predictions.target) / 100
"""
TOY_PUBLISHED = """
title: Toys
description: A table for a test.
papers:
  toys: {name: Toys 2000, citation: A paper, place: Table 1}
parts:
  - title: Answers
    paper: toys
    columns: {AUC: test.auc}
    rows:
      - name: Toy
        cell: toy_cell
        numbers: {AUC: {value: 88.0}}
"""


def git(root: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=toy", "-c", "user.email=toy@example.org"]
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout


def run_python(root: Path, *arguments: str, code: Path | None = None) -> str:
    """Run Python in a folder, with the code of the copy, and return what it printed."""
    done = Project(root).run("env", f"PYTHONPATH={code or root}", sys.executable, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("copy")
    copy_workflow(root, *COPIED, "reports/published")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "-m", "before")
    return root


@pytest.fixture
def root(copied: Path) -> Path:
    """The copy as it was, with what Python compiled."""
    git(copied, "checkout", "--quiet", ".")
    git(copied, "clean", "--quiet", "--force", "-d", "-x", "--exclude=__pycache__")
    return copied


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def replace(path: Path, old: str, new: str) -> None:
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))


def assert_touched(root: Path, addition: str) -> None:
    """Compare the number of files that differ from the copy with what the page allows."""
    touched = git(root, "status", "--porcelain", "--untracked-files=all").splitlines()
    assert len(touched) == MOST_FILES[addition], touched


def add_dataset(root: Path, task: dict[str, object], files: dict[str, str]) -> None:
    """Add the dataset `toy`, and its files as a person who has them would."""
    members = []
    for name, text in files.items():
        path = root / "data/local/toy" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        pin = {"digest": digest_file(path)}
        members.append({"name": name, "mirror": f"toy/{name}", "sha256": [pin]})
    source = ABOUT | {"files": members, "task": task}
    (root / "sources/toy.yaml").write_text(yaml.safe_dump(source, sort_keys=False))
    replace(root / "params.yaml", "tasks:\n", "tasks:\n  - toy\n")


def test_a_command_is_one_file(root: Path) -> None:
    (root / "nlp_core/cli/toy.py").write_text(TOY_COMMAND)
    assert_touched(root, "command")
    main = "from nlp_core.cli import main; main()"
    assert run_python(root, "-c", main, "toy", "--times", "2") == "toy toy \n"
    help_text = run_python(root, "-c", main, "--help")
    assert "\n  toy        play\n" in help_text.partition("look things up")[2]


def test_a_dataset_is_a_source_and_a_name(root: Path) -> None:
    add_dataset(
        root, TASK, {"train.tsv": REVIEWS, "dev.tsv": REVIEWS, "test.tsv": "id\ttext\n0\tx\n"}
    )
    assert_touched(root, "dataset")
    assert "preprocess@toy" in {stage.name for stage in dag.load_stages(root)}
    run_python(root, "-m", "stages.preprocess", "toy")
    note = json.loads((root / "data/processed/toy/manifest.json").read_text())
    assert note["splits"]["train"]["rows"] == 18


def test_a_kind_is_two_files(root: Path) -> None:
    kind, _, metric = TOY_KIND.partition("\n\n@metrics")
    append(root / "nlp_core/kinds.py", kind.partition("import metrics\n")[2])
    begin = "from nlp_core.metrics import base as metrics\n\n@metrics"
    (root / "nlp_core/metrics/toy.py").write_text(begin + metric)
    assert_touched(root, "kind")
    task = {
        "kind": "pair_multi_label",
        "reader": {"name": "tsv", "texts": ["a", "b"], "label": "c", "label_separator": ","},
        "tokens": "spaces",
        "labels": ["good", "old"],
        "metrics": ["overlap"],
        "splits": {"dev": {"file": "dev.tsv", "rows": 2}},
        "select_split": "dev",
        "report_split": "dev",
    }
    add_dataset(root, task, {"dev.tsv": ROWS})
    run_python(root, "-m", "stages.preprocess", "toy")
    note = json.loads((root / "data/processed/toy/manifest.json").read_text())
    assert (note["kind"], note["metrics"]) == ("pair_multi_label", ["overlap"])


def test_a_metric_is_a_function(root: Path, tmp_path: Path) -> None:
    append(root / "nlp_core/metrics/ranking.py", TOY_METRIC)
    assert_touched(root, "metric")
    make_project(tmp_path, ["alpha"])
    append(tmp_path / "params.yaml", "metrics:\n  trial:\n    - toy\n")
    run_python(tmp_path, "-m", "stages.evaluate", "trial", code=root)
    results = json.loads((tmp_path / "results/trial.json").read_text())
    assert results["cells"]["alpha"]["metrics"]["test.toy"]["values"] == [4.0, 4.0]


def test_a_table_is_three_files(root: Path, tmp_path: Path) -> None:
    grid = yaml.safe_load((root / "grid/sample.yaml").read_text())
    cell = grid["experiments"]["sample_answer_cnn"] | {"table": "toy", "recipe": "toy"}
    cell["seeds"] = [1, 2]
    toy = {"recipes": {"toy": grid["recipes"]["sample"]}, "experiments": {"toy_cell": cell}}
    (root / "grid/toy.yaml").write_text(yaml.safe_dump(toy))
    (root / "reports/published/toy.yaml").write_text(TOY_PUBLISHED)
    replace(
        root / "dvc.yaml",
        "  - tables:\n",
        "  - grid/toy.yaml:experiments\n  - tables:\n      - toy\n",
    )
    assert_touched(root, "table")
    stages = {stage.name for stage in dag.load_stages(root)}
    assert {"finetune@toy_cell", "evaluate@toy", "report@toy"} <= stages
    pretend_training(root, cell, make_cell(tmp_path, "alpha"))
    run_python(root, "-m", "stages.evaluate", "toy")
    run_python(root, "-m", "stages.report", "toy")
    assert "| Toy | AUC | 88.00 |" in (root / "reports/toy.md").read_text()


def pretend_training(root: Path, cell: dict[str, str], made: Path) -> None:
    """Put a fabricated cell where training would leave the cell `toy_cell`."""
    folder = root / "artifacts/cells/toy/toy_cell"
    shutil.copytree(made, folder)
    for path in folder.glob("seed-*/predictions/*.parquet"):
        path.rename(path.with_stem(cell["data"]))
    note = json.loads((folder / "cell.json").read_text())
    edit_json(
        folder / "cell.json",
        table="toy",
        cell="toy_cell",
        model=cell["model"],
        recipe="toy",
        data={cell["data"]: "sha256:"},
        init=note["init"] | {"path": cell["init"]},
        numerics=yaml.safe_load((root / "params.yaml").read_text())["numerics"],
        tasks={cell["data"]: note["tasks"]["alpha"]},
    )
