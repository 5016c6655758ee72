"""`reglue train` shares most of the functions that it runs with the training of a cell."""

import argparse
import inspect
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nlp_core.cli import main
from nlp_core.config.params import read_params
from nlp_core.training.cell import read_cell
from nlp_core.training.cell_run import train_cell
from nlp_core.training.determinism import describe_machine
from stages import preprocess

ROOT = Path(__file__).resolve().parent.parent
INPUTS = ["params.yaml", "grid", "sources", "zoo/sample"]
CELL = "sample_sentence_bilstm"
SOURCES = ["sample_sentence", "sample_vectors"]
LEAST_SHARED = 0.8
MODEL = "zoo/sample/sentence_bilstm.json"
DATA = {
    "kind": "classification",
    "format": "tsv",
    "texts": ["sentence"],
    "label": "label",
    "tokens": "spaces",
    "metrics": ["accuracy"],
}


def trace(work: Callable[[], object]) -> set[str]:
    """Return the functions of nlp_core that some work calls."""
    folder, found = str(ROOT / "nlp_core"), set()

    def see(frame: object, event: str, _: object) -> None:
        code = frame.f_code  # type: ignore[attr-defined]
        is_function = code.co_flags & inspect.CO_OPTIMIZED and code.co_name[0] != "<"
        if event == "call" and is_function and code.co_filename.startswith(folder):
            found.add(f"{code.co_filename.removeprefix(folder)}:{code.co_qualname}")

    sys.setprofile(see)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def make_cell() -> None:
    preprocess.main(argparse.Namespace(names=SOURCES))
    params = read_params(Path("params.yaml"))
    cell = params.experiments[CELL].model_copy(update={"seeds": [1]})
    recipe = params.recipes[cell.recipe].model_copy(update={"epochs": 1})
    values = {"experiments": {CELL: cell}, "recipes": {cell.recipe: recipe}}
    train_cell(read_cell(CELL, params.model_copy(update=values)))


def train_file() -> None:
    raw = Path("data/raw/sample_sentence")
    model = json.loads(Path(MODEL).read_text()) | {
        "data": DATA,
        "training": {"epochs": 1, "calibration": None},
    }
    Path("m.json").write_text(json.dumps(model))
    files = ["--train", str(raw / "train.tsv"), "--dev", str(raw / "dev.tsv"), "-o", "out"]
    main(["train", "m.json", *files, "--vectors", "data/processed/sample_vectors"])


@pytest.mark.slow
def test_most_functions_are_shared(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nlp_core.cli.train.write_page", lambda *_: None)  # a report
    for name in INPUTS:
        source, target = ROOT / name, place / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target) if source.is_dir() else shutil.copy2(source, target)
    describe_machine()
    cell, user = trace(make_cell), trace(train_file)
    user = {name for name in user if not name.startswith("/cli/")}  # the cell has no command line
    own = sorted(user - cell)
    assert len(user & cell) / len(user) >= LEAST_SHARED, (len(user), own)
