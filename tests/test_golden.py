import json
from pathlib import Path

import pytest
from fabricated import make_project

from nlp_core.errors import DataError
from nlp_core.report.difference import accept_golden, check_golden, collect_golden, compare_golden
from nlp_core.report.evaluation import evaluate_table
from nlp_core.report.results import Results, read_results

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_project(tmp_path)
    evaluate_table("trial", tmp_path)
    accept_golden("trial", tmp_path)
    return tmp_path


def read(root: Path) -> Results:
    return read_results("trial", root)


def change_results(root: Path, old: str, new: str) -> None:
    path = root / "results" / "trial.json"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_golden_keeps_the_value_of_each_seed(root: Path) -> None:
    golden = json.loads((root / "reports" / "golden" / "trial.json").read_text())
    assert golden["numerics"] == 1
    assert golden["cells"]["gamma"] == {"seeds": [7], "metrics": {"test.f1": [66.666667]}}


def test_the_same_numbers_have_no_difference(root: Path) -> None:
    assert compare_golden(read(root), collect_golden(read(root))) == []
    check_golden("trial", root)


def test_a_moved_number_is_named_and_says_what_to_do(root: Path) -> None:
    change_results(root, "66.666667", "66.666668")
    with pytest.raises(DataError) as caught:
        check_golden("trial", root)
    message = str(caught.value)
    assert "gamma: test.f1: [66.666668], golden [66.666667]" in message
    assert "raise 'numerics' in params.yaml" in message
    assert "python -m stages.report trial --accept-golden" in message
    accept_golden("trial", root)
    check_golden("trial", root)


def test_a_table_of_several_numerics_has_no_golden_numbers(root: Path) -> None:
    path = root / "results" / "trial.json"
    path.write_text(path.read_text().replace('"numerics": 1', '"numerics": 2', 1))
    with pytest.raises(DataError, match=r"numerics \[1, 2\], expected one; train and measure"):
        accept_golden("trial", root)


def test_a_number_that_moved_with_numerics_asks_for_no_more_of_it(root: Path) -> None:
    change_results(root, "66.666667", "66.666668")
    change_results(root, '"numerics": 1', '"numerics": 2')
    with pytest.raises(DataError, match="'numerics' was raised"):
        check_golden("trial", root)


def test_cells_seeds_and_metrics_that_come_or_go_are_differences(root: Path) -> None:
    golden = collect_golden(read(root))
    cells = dict(golden.cells)
    cells["new"] = cells.pop("alpha")
    cells["beta"] = cells["beta"].model_copy(update={"seeds": [1]})
    cells["gamma"] = cells["gamma"].model_copy(update={"metrics": {"test.accuracy": [50.0]}})
    assert compare_golden(read(root), golden.model_copy(update={"cells": cells})) == [
        "alpha: not in the golden file",
        "beta: seeds [1, 2, 3], golden [1]",
        "gamma: test.accuracy: none, golden [50.0]",
        "gamma: test.f1: [66.666667], golden none",
        "new: not in the results",
    ]


def test_without_a_golden_file_the_command_that_writes_it_is_named(root: Path) -> None:
    (root / "reports" / "golden" / "trial.json").unlink()
    with pytest.raises(DataError, match=r"stages\.report trial --accept-golden"):
        check_golden("trial", root)


def test_no_cells_are_not_golden(root: Path) -> None:
    (root / "results" / "trial.json").write_text('{"table": "trial", "cells": {}}')
    with pytest.raises(DataError, match="found no cells"):
        accept_golden("trial", root)


def test_the_committed_results_are_golden() -> None:
    """Compare the committed files; the workflow tests compare a retrained table."""
    paths = sorted((ROOT / "reports" / "golden").glob("*.json"))
    assert paths
    for path in paths:
        check_golden(path.stem, ROOT)
