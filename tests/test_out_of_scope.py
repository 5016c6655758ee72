"""Rows out of scope: no class, a threshold that turns them down, and their label as the answer."""

import json
from pathlib import Path

import numpy as np
import pytest

from nlp_core.cli import main
from nlp_core.data.split_column import LabelColumn
from nlp_core.data.task import Split
from nlp_core.prediction.split_prediction import SplitPredictions, measure_scope
from nlp_core.training.calibration import choose_scope_threshold
from reglue_runtime import BundleError, load
from tests.tiny_service import ask, get, running
from tests.user_commands import fail
from tests.user_files import QUICK, make_texts

ODD = ["rain sun", "engine wheel", "paint brush", "song drum"]
SCOPE = ["--out-of-scope", "odd"]


def write_rows(path: Path, rows: int, odd: int, *more: str, seed: int = 0) -> Path:
    """Write texts of five labels, and some with the label odd."""
    lines = [f"{text}\t{label}" for text, label in make_texts(rows, seed)]
    lines += [f"the {ODD[idx % len(ODD)]} was\todd" for idx in range(odd)]
    path.write_text("\n".join(["text\tlabel", *lines, *more]) + "\n", encoding="utf-8")
    return path


def read_column(path: Path, name: str) -> list[str]:
    header, *rows = (line.split("\t") for line in path.read_text().splitlines())
    return [row[header.index(name)] for row in rows]


def test_the_threshold_parts_the_two_sides_best() -> None:
    inside, right = np.array([0.9, 0.8, 0.5, 0.4]), np.array([True, True, True, False])
    # 0.65: 2 of 4 right and kept, 2 of 2 turned down: 1.5; 0.45: 3 of 4 and 1 of 2: 1.25
    assert choose_scope_threshold(inside, right, np.array([0.6, 0.3])) == pytest.approx(0.7)
    # all of them below all others: halfway
    assert choose_scope_threshold(inside, right, np.array([0.1])) == pytest.approx(0.25)


def test_the_scores_of_a_threshold_by_hand() -> None:
    def make(score: list[list[float]], found: list[str], right: list[str]) -> SplitPredictions:
        split = Split("test", np.arange(len(right)), {}, {"label": right}, None)
        return SplitPredictions(split, {"label": found}, np.array(score))

    inside = make([[0.9, 0.1], [0.4, 0.6], [0.8, 0.2], [0.7, 0.3]], [*"abaa"], [*"abba"])
    outside = make([[0.5, 0.5], [0.9, 0.1]], [*"aa"], ["odd"] * 2)
    # at 0.65: a is right and kept, b turned down, a wrong, a right; one of two odd turned down
    assert measure_scope(inside, outside, 0.65) == {
        "in_scope_accuracy": 50.0,
        "out_of_scope_recall": 50.0,
        "out_of_scope_precision": 50.0,
    }
    assert measure_scope(inside, None, 0.0) == {"in_scope_accuracy": 75.0}


def test_rows_out_of_scope_are_no_class_and_their_label_is_the_answer(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_rows(place / "a.tsv", 100, 20)
    write_rows(place / "b.tsv", 30, 12, seed=1)
    main(["train", "a.tsv", *QUICK, *SCOPE, "--test", "b.tsv", "-o", "out", "--json"])
    trained = json.loads(capsys.readouterr().out)
    note = json.loads((place / "out/calibration.json").read_text())
    assert (note["out_of_scope"], note["outside_examples"], note["examples"]) == ("odd", 20, 20)
    main(["test", "out", "--data", "b.tsv", "--json", "--confusion"])
    found = json.loads(capsys.readouterr().out)
    assert found.pop("confusion")["labels"] == ["food", "place", "price", "room", "staff"]
    assert found == pytest.approx(trained["test"])
    main(["predict", "out", "--data", "b.tsv", "-o", "p.tsv"])
    right, said = (read_column(place / "p.tsv", name) for name in ("label", "prediction"))
    low = [
        float(item) < note["abstain_below"] for item in read_column(place / "p.tsv", "confidence")
    ]
    assert [item == "odd" for item in said] == low
    turned = [one == "odd" for one, other in zip(right, said, strict=True) if other == "odd"]
    assert found["out_of_scope_recall"] == pytest.approx(100 * sum(turned) / 12)
    assert found["out_of_scope_precision"] == pytest.approx(100 * sum(turned) / len(turned))
    hits = [one == other for one, other in zip(right, said, strict=True) if one != "odd"]
    assert found["in_scope_accuracy"] == pytest.approx(100 * sum(hits) / 30)
    assert found["out_of_scope_recall"] > 50 < found["in_scope_accuracy"]


def test_the_label_may_be_only_in_the_test_file(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_rows(place / "a.tsv", 60, 0)
    write_rows(place / "b.tsv", 20, 5, seed=1)
    files = ["--test", "b.tsv", "--json"]
    main(["train", "a.tsv", *QUICK, *SCOPE, *files, "--epochs", "1", "-o", "out"])
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert "no row with the label 'odd' in the training and development data" in said.err
    assert "out_of_scope_recall" in found["test"]
    assert "out_of_scope_recall" not in found["dev"]
    assert "outside_below" not in json.loads((place / "out/calibration.json").read_text())


def test_what_cannot_have_a_threshold_is_an_error(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_rows(place / "a.tsv", 60, 5)
    train = ["train", "a.tsv", *QUICK, *SCOPE, "-o", "out"]
    assert "confidence is not fitted" in fail(capsys, *train, "--set", "training.calibration=null")
    write_rows(place / "few.tsv", 20, 5)
    few = fail(capsys, "train", "few.tsv", *QUICK, *SCOPE, "-o", "out")
    assert "found 4 rows in scope held out, expected 10" in few
    write_rows(place / "odd.tsv", 0, 12)
    assert "only rows out of scope" in fail(capsys, "train", "odd.tsv", *QUICK, *SCOPE, "-o", "out")
    with pytest.raises(SystemExit):
        main([*train, "--kind", "regression"])


def test_a_label_that_training_never_saw_counts_as_wrong(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_rows(place / "a.tsv", 60, 0)
    write_rows(place / "b.tsv", 18, 0, "the bed\trooms", "a view\trooms", seed=1)
    files = ["--dev", "b.tsv", "--test", "b.tsv"]
    main(["train", "a.tsv", *QUICK, *files, "-o", "out", "--json"])
    said = capsys.readouterr()
    assert "b.tsv: line 20: found labels that the training file does not have" in said.err
    assert "count as wrong: 'rooms' (2). Did you mean 'room'?" in said.err
    found = json.loads(said.out)
    main(["predict", "out", "--data", "b.tsv", "-o", "p.tsv"])
    capsys.readouterr()
    answers = [read_column(place / "p.tsv", name) for name in ("label", "prediction")]
    hits = sum(one == other for one, other in zip(*answers, strict=True))
    assert found["test"]["accuracy"] == pytest.approx(100 * hits / 20)
    assert "| rooms |" in (place / "out/report.md").read_text()
    main(["test", "out", "--data", "b.tsv", "--json"])
    assert json.loads(capsys.readouterr().out) == pytest.approx(found["test"])


def test_an_unknown_label_has_no_id_only_where_it_is_measured() -> None:
    column = LabelColumn.build("label", ["a", "b"])
    measured = LabelColumn(column.target, column.words, is_measured=True)
    assert measured.encode(["b"])[np.arange(2)].tolist() == [-1, 0]  # type: ignore[index]


@pytest.mark.slow
def test_a_bundle_and_the_service_answer_with_the_label(place: Path) -> None:
    write_rows(place / "a.tsv", 100, 20)
    main(["train", "a.tsv", *QUICK, *SCOPE, "-o", "out"])
    main(["export", "out", "--data", "a.tsv", "--to", "bundle"])
    main(["predict", "out", "--data", "a.tsv", "-o", "p.tsv"])
    texts, said = (read_column(place / "p.tsv", name) for name in ("text", "prediction"))
    bundle = load("bundle")
    assert [item["label"] for item in bundle.predict(texts)] == said
    assert "odd" in said
    with running({"a": bundle}) as found:
        (note,) = get(found.port, "/bundles").body["bundles"]
        assert note["out_of_scope"] == "odd"
        for least, wanted in ((None, said), ("auto", said), (1.0, ["odd"] * len(said))):
            body = {"examples": texts, "abstain_below": least}
            reply = ask(found.port, body).body["predictions"]
            assert [item["label"] for item in reply] == wanted
        every = ask(found.port, {"examples": texts, "abstain_below": 0}).body["predictions"]
        assert "odd" not in [item["label"] for item in every]
    with pytest.raises(BundleError, match="expected a list"):
        bundle.predict("a text")


def test_a_file_without_a_known_label_is_an_error(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_rows(place / "a.tsv", 60, 0)
    write_rows(place / "b.tsv", 0, 0, "the bed\trooms", "a view\tcellar", seed=1)
    main(["train", "a.tsv", *QUICK, "-o", "out"])
    said = fail(capsys, "test", "out", "--data", "b.tsv")
    assert "line 2: found the label 'rooms' and none that the training file of out has" in said
    assert "Did you mean 'room'? Is it the column of the label?" in said
