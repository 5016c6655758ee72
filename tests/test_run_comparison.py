"""Trained folders compared on the same rows."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from scipy import stats
from sklearn.metrics import f1_score

from nlp_core.cli import main
from nlp_core.errors import UsageError
from nlp_core.metrics import Predictions
from nlp_core.report.run_comparison import MeasuredRun, compare_runs
from nlp_core.statistics import build_score
from tests.user_commands import fail, trained
from tests.user_files import QUICK, SMALL, write_conll, write_tsv

__all__ = ["trained"]
RIGHT = ["yes", "no"] * 50


def make_run(name: str, wrong: int, **changes: object) -> MeasuredRun:
    """Return a run whose first rows are wrong."""
    said = [{"yes": "no", "no": "yes"}[item] for item in RIGHT[:wrong]] + RIGHT[wrong:]
    found = Predictions(["no", "yes"], RIGHT, said)
    run = MeasuredRun(name, "classification", ["accuracy", "macro_f1"], "a file", found)
    return run._replace(**changes)  # type: ignore[arg-type]


def test_the_best_is_first_and_equals_share_a_letter() -> None:
    accuracy, macro = compare_runs([make_run("bad", 40), make_run("good", 4), make_run("fair", 6)])
    assert [(item.run, item.score, item.letters) for item in accuracy.scores] == [
        ("good", 96.0, "a"),
        ("fair", 94.0, "a"),
        ("bad", 60.0, "b"),
    ]
    assert (accuracy.rows, macro.metric) == (100, "macro_f1")
    close, far, _ = accuracy.differences
    assert (close.first, close.second, close.is_real) == ("good", "fair", False)
    assert (far.difference, far.is_real) == (pytest.approx(36.0), True)
    assert far.interval.low < 36 < far.interval.high


def test_the_p_value_is_the_exact_one_corrected_by_holm() -> None:
    one, two = make_run("one", 10), make_run("two", 18)
    accuracy, macro = compare_runs([one, two])
    (found,) = accuracy.differences
    # 8 rows differ, all in favour of one: 2 / 2 ** 8, of two tests
    assert found.p_value == pytest.approx(2 * stats.binomtest(8, 8).pvalue, rel=0.25)
    assert macro.differences[0].p_value >= found.p_value / 2


def test_the_mean_f1_of_labels_is_that_of_scikit_learn() -> None:
    draw = np.random.default_rng(0)
    right, said = (draw.choice(["a", "b", "c"], 60).tolist() for _ in range(2))
    score = build_score("classification", "macro_f1", [Predictions([*"abc"], right, said)])
    assert score is not None
    assert score.values[0] == pytest.approx(100 * f1_score(right, said, average="macro"))


def test_models_with_other_labels_are_compared_by_the_labels_of_all() -> None:
    right = [*"abc"] * 20
    metrics = ["accuracy", "macro_f1", "auc"]
    two, three = (
        MeasuredRun(name, "classification", metrics, "", Predictions(labels, right, said, score))
        for name, labels, said, score in (
            ("two", [*"bc"], [*"bbc"] * 20, np.tile([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]], (20, 1))),
            ("three", [*"abc"], right, np.tile(np.eye(3), (20, 1))),
        )
    )
    accuracy, macro, area = compare_runs([two, three])
    assert [item.score for item in accuracy.scores] == [100.0, pytest.approx(200 / 3)]
    expected = 100 * f1_score(right, [*"bbc"] * 20, average="macro", zero_division=0)
    assert [item.score for item in macro.scores] == [100.0, pytest.approx(expected)]
    assert [item.score for item in area.scores] == [100.0, 100.0]
    assert macro.differences[0].is_real


def test_the_positive_label_stays_the_last_one() -> None:
    one, two = (
        make_run(name, 0, metrics=["f1"], predictions=Predictions(labels, RIGHT, RIGHT))
        for name, labels in (("one", ["no", "yes"]), ("two", ["no", "maybe", "yes"]))
    )
    (found,) = compare_runs([one, two])
    assert [item.score for item in found.scores] == [100.0, 100.0]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            make_run("two", 3, predictions=Predictions(["yes", "no", "x"], RIGHT, RIGHT)),
            "two: found the last label 'x', expected 'yes' as one has, since f1 is of the last",
        ),
        (
            make_run("two", 3, predictions=Predictions(["no", "x"], RIGHT, RIGHT)),
            "It has no label 'yes'. Train",
        ),
        (make_run("one", 3), "found one and one, expected two or more different folders"),
        (make_run("a/../one", 3), "found one and a/../one, expected two or more different folders"),
        (make_run("two", 3, kind="tagging"), "kind tagging, expected classification as one has"),
        (make_run("two", 3, rows="another file"), "found other rows"),
        (make_run("two", 3, predictions=Predictions([], RIGHT[1:], RIGHT[1:])), r"rows \(99\)"),
    ],
)
def test_what_cannot_be_compared_is_an_error(other: MeasuredRun, message: str) -> None:
    runs = [run._replace(metrics=["accuracy", "f1"]) for run in (make_run("one", 3), other)]
    with pytest.raises(UsageError, match=message):
        compare_runs(runs)


def test_folders_are_compared_by_what_they_measured_or_by_a_file(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tsv(place / "a.tsv", rows=60)
    write_tsv(place / "b.tsv", rows=30, seed=1)
    for name, epochs in (("long", "6"), ("short", "1")):
        main(["train", "a.tsv", *QUICK, "--epochs", epochs, "--test", "b.tsv", "-o", name])
    main(["train", "a.tsv", *QUICK, "--epochs", "1", "-o", "held"])
    capsys.readouterr()
    main(["compare", "short", "long", "--json"])
    stored = json.loads(capsys.readouterr().out)
    assert [item["run"] for item in stored[0]["scores"]] == ["long", "short"]
    main(["compare", "short", "long", "--data", "b.tsv", "--json"])
    assert json.loads(capsys.readouterr().out) == stored
    main(["compare", "short", "long"])
    assert "long - short" in capsys.readouterr().out
    assert "held: found other rows" in fail(capsys, "compare", "short", "held")
    # of equal labels, as two seeds may hold out
    moved = shutil.copytree(place / "held", place / "moved") / "predictions.parquet"
    table = pq.read_table(moved)
    ids = pc.add(table["id"], 1)
    pq.write_table(table.set_column(table.column_names.index("id"), "id", ids), moved)
    assert "moved: found other rows" in fail(capsys, "compare", "held", "moved")
    stored_in = place / "held" / "predictions.parquet"
    stored_in.write_bytes(b"cut off")
    assert "found no readable parquet file; it is" in fail(capsys, "compare", "short", "held")
    stored_in.unlink()
    assert "no such file; train the model again" in fail(capsys, "compare", "short", "held")
    (place / "c.tsv").write_text("a bed\tx\na dish\ty\n" * 5)
    main(["train", "c.tsv", *QUICK, "--epochs", "1", "-o", "xy"])
    found = fail(capsys, "compare", "short", "xy", "--data", "b.tsv")
    assert "none that the training file of xy has" in found
    write_conll(place / "a.conll", rows=20)
    main(["train", "a.conll", *SMALL, "--epochs", "1", "-o", "tags"])
    assert "tags: found a model of the kind tagging" in fail(capsys, "compare", "short", "tags")


def test_rows_with_one_label_are_measured_with_a_warning(
    trained: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "one.tsv").write_text("text\tlabel\n" + "soup\tfood\n" * 3)
    out, said = str(trained / "out"), "one.tsv: found 'food' as the only right answer of 3 rows"
    main(["test", out, "--data", "one.tsv"])
    assert said in capsys.readouterr().err
    copy = str(shutil.copytree(out, place / "copy"))
    main(["compare", out, copy, "--data", "one.tsv"])
    assert capsys.readouterr().err.count(said) == 1
    main(["test", out, "--data", str(trained / "dev.tsv")])
    assert "only right answer" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("target", "found"),
    [
        (["a", "a"], "a"),
        (["a", "b"], None),
        ([["O"], ["O", "O"]], "O"),
        ([["O"], ["O", "B-x"]], None),
        ([{"label": "a", "tags": ["O"]}, {"label": "b", "tags": ["O"]}], "O"),
        ([0.5, 0.5], "0.5"),
        ([], None),
    ],
)
def test_the_only_right_answer_is_found(target: list[object], found: str | None) -> None:
    assert Predictions([], target, target).constant == found


def test_a_way_to_read_a_file_needs_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    found = fail(capsys, "compare", "a", "b", "--set", "data.label=label")
    assert "--set: found no --data" in found
