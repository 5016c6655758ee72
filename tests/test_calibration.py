"""Confidence: the temperature, the threshold, and their way into the trained folder."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax

from nlp_core.cli import main
from nlp_core.prediction.predictor import Predictor
from nlp_core.prediction.trained_model import TrainedModel
from nlp_core.training.calibration import (
    _scale_confidence,
    apply_temperature,
    choose_temperature,
    choose_threshold,
    fit_calibration,
    fit_temperature,
)
from reglue_runtime import BundleError, load
from tests.user_commands import fail
from tests.user_files import QUICK, SMALL, put, write_conll, write_slots, write_tsv


def draw(temperature: float, size: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities that are right at a temperature, and labels."""
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(size, 3)) * 3
    labels = [generator.choice(3, p=softmax(row / temperature)) for row in logits]
    return softmax(logits, axis=1), np.array(labels)


def test_a_probability_of_0_is_a_finite_logit_for_the_confidence_too() -> None:
    certain = np.array([[1.0, 0.0, 0.0]])
    (found,) = _scale_confidence(certain, 50.0)
    assert found == pytest.approx(1 / (1 + 2 * np.exp(-100 / 50)))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.5])
def test_the_temperature_of_the_labels_is_found(temperature: float) -> None:
    found = fit_temperature(*draw(temperature))
    assert found == pytest.approx(temperature, rel=0.1)  # 4,000 draws


def test_overconfidence_becomes_less() -> None:
    found = fit_calibration(*draw(3.0, size=1000))
    assert found is not None
    assert found.error < found.error_before / 3
    assert found.right_kept >= 0.95 > found.wrong_kept


@given(st.integers(10, 60), st.integers(2, 5))
def test_a_model_without_an_error_is_not_certain(size: int, labels: int) -> None:
    target = np.arange(size) % labels
    probability = np.full((size, labels), 0.01)
    probability[np.arange(size), target] = 1 - 0.01 * (labels - 1)
    found = fit_calibration(probability, target)
    assert found is not None
    assert found.temperature > 0.1
    assert found.wrong_kept == 0.0


@pytest.mark.parametrize("difference", [0.02, 0.1, 1.0])
def test_small_differences_of_right_answers_become_confident(difference: float) -> None:
    target = np.arange(40) % 2
    logits = np.random.default_rng(0).uniform(0.5, 1.5, 40) * difference
    found = fit_calibration(softmax(logits[:, None] * np.eye(2)[target], axis=1), target)
    assert found is not None
    assert found.error < 0.03 < found.error_before


@pytest.mark.parametrize("size", [10, 20, 40])
def test_few_examples_of_a_calibrated_model_leave_it_as_it_is(size: int) -> None:
    probability, target = draw(1.0)
    parts = zip(np.split(probability, 4000 // size), np.split(target, 4000 // size), strict=True)
    found = [choose_temperature(*part) for part in parts]
    assert np.mean([value == 1.0 for value in found]) > 0.6  # the rest fits by luck


def test_a_temperature_that_helps_is_kept() -> None:
    data = draw(3.0, size=100)
    assert choose_temperature(*data) == fit_temperature(*data) > 2


def test_without_a_right_answer_no_threshold_is_advised(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tsv(place / "a.tsv", rows=80)
    names = ["food", "place", "price", "room", "staff"]
    wrong = dict(zip(names, [*names[1:], names[0]], strict=True))
    rows = [line.split("\t") for line in (place / "a.tsv").read_text().splitlines()]
    put(place / "dev.tsv", "".join(f"{text}\t{wrong[label]}\n" for text, label in rows))
    last = ["--set", "training.kept_epoch=last", "--set", "training.patience=null"]
    main(["train", "a.tsv", "--dev", "dev.tsv", *QUICK, *last, "-o", "out"])
    shown = capsys.readouterr().out
    assert "No right answer was held out, so no threshold" in shown
    assert "--abstain-below 1.00" not in shown
    data = ["predict", "out", "--data", "a.tsv", "-o", "p.tsv", "--abstain-below"]
    assert "has no threshold, since no right answer" in fail(capsys, *data, "auto")
    main([*data, "0.5"])


def test_few_examples_fit_nothing() -> None:
    assert fit_calibration(np.full((9, 2), 0.5), np.zeros(9, dtype=np.int64)) is None


def test_labels_that_training_never_saw_fit_no_temperature() -> None:
    found = fit_calibration(np.full((12, 2), 0.5), np.full(12, -1))
    assert found is not None
    assert (found.temperature, found.right_kept) == (1.0, 0.0)


def test_the_threshold_keeps_right_answers() -> None:
    confidence = np.linspace(0.01, 1.0, 100)
    threshold = choose_threshold(confidence, np.ones(100, dtype=np.bool_))
    assert threshold == pytest.approx(0.05)
    assert choose_threshold(confidence, np.zeros(100, dtype=np.bool_)) == 1.0


def test_only_the_last_map_of_the_head_is_cooled() -> None:
    state = {"heads.label.layers.out.weight": torch.ones(2), "blocks.word": torch.ones(2)}
    cooled = apply_temperature(state, "label", 2.0)
    assert [item.tolist() for item in cooled.values()] == [[0.5, 0.5], [1.0, 1.0]]


def test_training_writes_and_uses_the_temperature(place: Path) -> None:
    write_tsv(place / "a.tsv", rows=80)
    main(["train", "a.tsv", *QUICK, "--epochs", "2", "-o", "out"])
    plain = ["--set", "training.calibration=null"]
    main(["train", "a.tsv", *QUICK, "--epochs", "2", "-o", "plain", *plain])
    note = json.loads((place / "out/calibration.json").read_text())
    assert note["examples"] == 16
    assert not (place / "plain/calibration.json").exists()
    chances = []
    for folder in ("out", "plain"):
        main(["predict", folder, "--data", "a.tsv", "-o", f"{folder}.tsv"])
        rows = [line.split("\t") for line in (place / f"{folder}.tsv").read_text().splitlines()]
        chances.append(np.array([float(row[3]) for row in rows]))
    hotter = note["temperature"] > 1
    assert (
        (chances[0] <= chances[1] + 1e-4).all()
        if hotter
        else (chances[0] >= chances[1] - 1e-4).all()
    )


def test_a_ranking_has_no_answer_to_leave_out(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"who won {n // 3} ?\tteam {n} {n % 3}\t{int(n % 3 == 0)}\n" for n in range(180)]
    (place / "r.tsv").write_text("question\tcandidate\tlabel\n" + "".join(rows))
    main(["train", "r.tsv", "--epochs", "1", "-o", "out"])
    shown = capsys.readouterr().out
    assert "Confidence: temperature" in shown
    assert "abstain" not in shown
    assert "found a model of the kind ranking" in fail(
        capsys, "predict", "out", "--data", "r.tsv", "-o", "p.tsv", "--abstain-below", "0.5"
    )
    main(["export", "out", "--data", "r.tsv", "--to", "bundle"])
    assert (
        "abstain_below" not in json.loads((place / "bundle/bundle.json").read_text())["calibration"]
    )
    with pytest.raises(BundleError, match="found a bundle of the kind ranking"):
        load("bundle").predict([["who won ?", "team"]], abstain_below=0.5)


def test_rows_below_the_threshold_get_no_label(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tsv(place / "a.tsv", rows=80)
    main(["train", "a.tsv", *QUICK, "--epochs", "2", "-o", "out"])
    shown = capsys.readouterr().out
    assert "expected calibration error" in shown
    data = ["predict", "out", "--data", "a.tsv", "-o", "p.tsv", "--abstain-below"]
    note = json.loads((place / "out/calibration.json").read_text())
    for least, wanted in (("auto", note["abstain_below"]), ("0", 0.0), ("1", 1.0)):
        main([*data, least])
        rows = [line.split("\t") for line in (place / "p.tsv").read_text().splitlines()]
        sure = [(row[2], float(row[3]) - wanted) for row in rows if row[3] != "1.0"]
        # written with 4 places
        assert all((label == "") == (margin < 0) for label, margin in sure if abs(margin) > 1e-4)
    assert "a number from 0 to 1" in fail(capsys, *data, "2")
    (place / "out/calibration.json").unlink()
    assert "calibration.json: no such file; train the model" in fail(capsys, *data, "auto")
    main(["train", "a.tsv", *QUICK, "--set", "training.calibration=null", "-o", "plain"])
    assert "has no threshold" in fail(capsys, *[data[0], "plain", *data[2:]], "auto")


def test_a_model_of_tags_cannot_abstain(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_conll(place / "a.conll", rows=20)
    main(["train", "a.conll", *SMALL, "--epochs", "1", "-o", "out"])
    data = ["predict", "out", "--data", "a.conll", "-o", "p.conll", "--abstain-below", "0.5"]
    assert "expected one that chooses a label" in fail(capsys, *data)


@pytest.mark.slow
def test_a_bundle_abstains_as_the_model_does(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tsv(place / "a.tsv", rows=80)
    main(["train", "a.tsv", *QUICK, "--epochs", "2", "-o", "out"])
    main(["export", "out", "--data", "a.tsv", "--to", "bundle"])
    texts = [line.split("\t")[0] for line in (place / "a.tsv").read_text().splitlines()]
    model = Predictor(TrainedModel.open("out"), abstain_below="auto")
    found = load("bundle").predict(texts, abstain_below="auto")
    assert [item["label"] for item in found] == [item.prediction for item in model.predict(texts)]
    assert {item["label"] for item in load("bundle").predict(texts, abstain_below=1.0)} == {""}
    capsys.readouterr()
    drop = ["--variant", "int8", "--max-drop", "50", "--json"]
    main(["export", "out", "--data", "a.tsv", "--to", "small", *drop])
    note = json.loads(capsys.readouterr().out)
    expected = ["examples", "same_labels", "max_difference", "metric", "trained", "exported"]
    assert list(note) == expected


def test_a_model_of_intents_abstains_as_its_bundle_does(place: Path) -> None:
    write_slots(place / "a.tsv")
    main(["new", "intent_slots", "--train", "a.tsv", "-o", "m.json"])
    main(["train", "m.json", "--train", "a.tsv", *SMALL, "--epochs", "1", "-o", "out"])
    main(["predict", "out", "--data", "a.tsv", "-o", "p.tsv", "--abstain-below", "auto"])
    least = json.loads((place / "out/calibration.json").read_text())["abstain_below"]
    model = TrainedModel.open("out")
    found = Predictor(model).predict(["fly to Rome", "cheap bed"])
    silent = Predictor(model, abstain_below=1.0).predict(["fly to Rome", "cheap bed"])
    assert [(item.prediction, item.tags) for item in silent] == [("", item.tags) for item in found]
    rows = [line.split("\t") for line in (place / "p.tsv").read_text().splitlines()]
    for *_, label, _, confidence in rows:
        chance = float(confidence)  # written with 4 places
        assert abs(chance - least) < 1e-3 or (label == "") == (chance < least)
