"""A bundle is judged by what it says: worse scores, scores that are not numbers, short texts."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from nlp_core.data.task import Split, Task
from nlp_core.errors import ExportError
from nlp_core.export import parity
from nlp_core.export.parity import Answers, ModelAnswer
from nlp_core.prediction.trained_model import TrainedModel
from reglue_runtime import Bundle


def answer(score: float) -> Answers:
    return {"label": ModelAnswer("0", np.array([score], dtype=np.float32))}


EXAMPLES = cast(Split, [{} for _ in range(6)])


def make_trained(metric: str, size: int = 6) -> TrainedModel:
    """Return what `compare` reads of a model of examples that grow longer."""
    encoded = SimpleNamespace(lengths=np.arange(size)[::-1] + 1, split=EXAMPLES)
    found = SimpleNamespace(
        name="m",
        featurizer=SimpleNamespace(encode=lambda _: encoded, targets={"label": []}),
        task=SimpleNamespace(metrics=[metric]),
    )
    return cast(TrainedModel, found)


BUNDLE = cast(Bundle, SimpleNamespace(manifest=SimpleNamespace(variant="int8")))


def measure(monkeypatch: pytest.MonkeyPatch, trained: float, exported: float) -> None:
    """Let the metric of the trained model and of the exported one be these."""
    right, found = answer(0.0), answer(1.0)
    monkeypatch.setattr(parity, "ask_trained", lambda *_: [right] * 6)
    monkeypatch.setattr(parity, "_ask_bundle", lambda *_: [found] * 6)
    scores = {0.0: trained, 1.0: exported}

    def score(task: Task, answers: list[Answers]) -> dict[str, float]:
        return {task.metrics[0]: scores[float(answers[0]["label"].scores[0])]}

    monkeypatch.setattr(parity, "join_predictions", lambda _, answers, __: answers)
    monkeypatch.setattr(parity, "score_predictions", score)


@pytest.mark.parametrize(
    ("metric", "trained", "exported"),
    [
        ("rmse", 0.5, 5.0),
        ("accuracy", 90.0, 80.0),
        ("rmse", 0.5, float("nan")),
        ("accuracy", 90.0, float("nan")),
    ],
)
def test_a_bundle_of_fewer_bits_that_is_worse_is_refused(
    monkeypatch: pytest.MonkeyPatch, metric: str, trained: float, exported: float
) -> None:
    measure(monkeypatch, trained, exported)
    with pytest.raises(ExportError, match=r"worse than the trained model's .*at most 0\.3"):
        parity.compare(make_trained(metric), EXAMPLES, BUNDLE, 0.3)


@pytest.mark.parametrize(
    ("metric", "trained", "exported"), [("rmse", 5.0, 0.5), ("accuracy", 80.0, 90.0)]
)
def test_a_bundle_of_fewer_bits_that_is_better_is_kept(
    monkeypatch: pytest.MonkeyPatch, metric: str, trained: float, exported: float
) -> None:
    measure(monkeypatch, trained, exported)
    found = parity.compare(make_trained(metric), EXAMPLES, BUNDLE, 0.3)
    assert (found.trained, found.exported) == (trained, exported)


@pytest.mark.parametrize(
    ("trained", "exported", "is_same"),
    [
        (float("nan"), float("nan"), False),
        (0.5, float("nan"), False),
        (float("inf"), 0.5, False),
        (0.5, 0.5002, False),
        (2048.0, float(np.nextafter(np.float32(2048.0), np.float32(3000.0))), True),
        (2048.0, 2049.0, False),
    ],
)
def test_scores_are_compared_by_their_size_and_must_be_numbers(
    monkeypatch: pytest.MonkeyPatch, trained: float, exported: float, is_same: bool
) -> None:
    right, found = answer(trained), answer(exported)
    monkeypatch.setattr(parity, "ask_trained", lambda *_: [right] * 6)
    monkeypatch.setattr(parity, "_ask_bundle", lambda *args: [found] * len(args[3]))
    if is_same:
        assert parity.compare(make_trained("rmse"), EXAMPLES, BUNDLE, None).same_labels == 6
        return
    with pytest.raises(ExportError, match="no bundle was written"):
        parity.compare(make_trained("rmse"), EXAMPLES, BUNDLE, None)


def test_the_shortest_examples_are_asked_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(_: object, __: object, ___: object, rows: Any) -> list[Answers]:
        if len(rows) == 1:  # the last is the shortest; padding in a batch hides its size
            return [answer(0.9 if rows[0] == 5 else 0.5)]
        return [answer(0.5)] * len(rows)

    monkeypatch.setattr(parity, "ask_trained", lambda *_: [answer(0.5)] * 6)
    monkeypatch.setattr(parity, "_ask_bundle", ask)
    with pytest.raises(ExportError, match="the same for 4 of 4 examples, with scores that differ"):
        parity.compare(make_trained("rmse"), EXAMPLES, BUNDLE, None)
