"""The committed predictions give the committed scores; they hold no text."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from nlp_core.config.params import Params
from nlp_core.errors import DataError
from nlp_core.report.cell import read_trained
from nlp_core.report.evaluation import evaluate_cell
from nlp_core.report.examples import find_examples, measure_examples, write_examples
from nlp_core.report.results import CellResult, read_results
from nlp_core.training.cell import read_cell
from nlp_core.training.cell_run import train_cell
from tests.test_training import make_params, project
from tests.tiny import make_recipe, write_task

__all__ = ["project"]
ROOT = Path(__file__).resolve().parent.parent
RESULTS = sorted((ROOT / "results").glob("*.json"))
COMMITTED = [
    (path.stem, name)
    for path in RESULTS
    for name, cell in json.loads(path.read_text())["cells"].items()
    if cell.get("runs") and find_examples(path.stem, name, ROOT).exists()
]


def assert_scores(found: dict[str, list[float]], expected: CellResult) -> None:
    assert found
    for name, values in found.items():
        # results have six decimal places, probabilities are stored in 32 bits
        assert values == pytest.approx(expected.metrics[name].values, abs=2e-6), name


@pytest.mark.parametrize(("table", "name"), COMMITTED)
def test_committed_predictions_give_the_committed_scores(table: str, name: str) -> None:
    expected = read_results(table, ROOT).cells[name]
    assert_scores(measure_examples(find_examples(table, name, ROOT)), expected)


@pytest.mark.parametrize(
    "kind", ["classification", "multi_label", "tagging", "ranking", "pair_regression"]
)
@pytest.mark.parametrize("held_out", [False, True])
def test_every_kind_is_measured_as_before(project: Path, kind: str, *, held_out: bool) -> None:
    write_task(project, kind, held_out=held_out)
    params = make_params(kind, make_recipe(epochs=1))
    path, expected = train_and_write(params, project)
    assert_scores(measure_examples(path), expected)
    columns = set(pq.read_table(path).column_names)
    assert not columns & {"text", "tokens", "tokens_a", "tokens_b"}


def train_and_write(params: Params, root: Path) -> tuple[Path, CellResult]:
    folder = train_cell(read_cell("tiny", params))
    path = find_examples("sample", "tiny", root)
    write_examples(path, folder, read_trained("tiny", params.experiments["tiny"], params, root))
    return path, evaluate_cell("tiny", params, root)


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file; measure the cell again"):
        measure_examples(tmp_path / "none.parquet")
