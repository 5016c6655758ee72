"""Questions with several candidates in a row, of which one is right, from file to prediction."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nlp_core.config.user_data import DataConfig
from nlp_core.data.guess import guess_data
from nlp_core.data.readers.user import read_examples
from nlp_core.errors import ConfigError, DataError
from nlp_core.kinds import RANKING
from nlp_core.metrics import Predictions, measure
from nlp_core.prediction.predictor import Predictor
from nlp_core.prediction.trained_model import TrainedModel
from tests.user_commands import learn
from tests.user_files import WORDS, read_rows

CHOICES = {"kind": "ranking", "format": "jsonl", "texts": ["premise"], "label": "label"}
CHOICES |= {"choices": ["choice1", "choice2"]}


def write_choices(path: Path, rows: int = 60, *, names: str = "01", seed: int = 0) -> Path:
    """Write an object a line, as COPA has them: one choice is of the premise's subject."""
    draw = random.Random(seed)
    lines = []
    for idx in range(rows):
        subject, other = draw.sample(list(WORDS), 2)
        right = draw.randrange(2)
        texts = [draw.choice(WORDS[other if place != right else subject]) for place in range(2)]
        row = {
            "premise": f"the {draw.choice(WORDS[subject])} was it",
            "choice1": f"a {texts[0]}",
            "choice2": f"a {texts[1]}",
            "idx": idx,
            "label": names[right],
        }
        lines.append(json.dumps(row) + "\n")
    path.write_text("".join(lines), encoding="utf-8")
    return path


def test_the_right_choice_is_learnt_and_predicted_with_no_edit(place: Path) -> None:
    options = ["--set", "layers.word.dim=16", "--set", "layers.lstm.hidden_dim=16"]
    options += ["--lr", "0.01", "--set", "layers.drop.p=0.0", "--epochs", "12"]
    metrics = learn("multiple_choice", write_choices(place / "a.jsonl", 150), *options)
    assert metrics["accuracy"] >= 80
    model = json.loads((place / "m.json").read_text())
    assert model["data"]["choices"] == ["choice1", "choice2"]
    assert (model["data"]["texts"], model["data"]["label"]) == (["premise"], "label")
    assert model["heads"]["label"]["head"] == "listwise_ranking"
    rows = read_rows(place / "p.jsonl")
    assert len(rows) == 150
    assert np.mean([row["prediction"] == row["label"] for row in rows]) > 0.8
    assert all(0.5 <= row["confidence"] <= 1 for row in rows)
    predictor = Predictor(TrainedModel.open(place / "out"))
    texts = [rows[0][name] for name in ("premise", "choice1", "choice2")]
    (found,) = predictor.predict([texts])
    assert found.prediction == rows[0]["prediction"]
    assert found.probability is not None
    assert float(found.probability.sum()) == pytest.approx(1.0)
    with pytest.raises(ConfigError, match="found 2 texts, expected 3: premise and choice1 and"):
        predictor.predict([texts[:2]])


def test_each_candidate_is_an_example_of_its_question(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    row = {"premise": "the film", "ask": "why ?", "choice1": "bad", "choice2": "good", "label": "B"}
    path.write_text(json.dumps(row) + "\n")
    values = {**CHOICES, "texts": ["premise", "ask"], "choice_labels": ["A", "B"]}
    found = list(read_examples(path, DataConfig.model_validate(values)))
    assert [item.texts for item in found] == [
        [["the", "film", "why", "?"], ["bad"]],
        [["the", "film", "why", "?"], ["good"]],
    ]
    assert [item.targets["label"] for item in found] == [["0"], ["1"]]
    assert {item.group for item in found} == {"1"}


@pytest.mark.parametrize(
    ("columns", "choices", "labels"),
    [
        ({"q": "who ate it", "ending0": "a", "ending1": "b", "label": 1}, ["ending0", "ending1"], None),  # noqa: E501
        ({"goal": "to eat", "sol1": "a b", "sol2": "c d", "answer": 2}, ["sol1", "sol2"], ["1", "2"]),  # noqa: E501
        ({"question": "why so", "A": "x", "B": "y", "answerKey": "B"}, ["A", "B"], ["A", "B"]),
        ({"q": "why", "option 1": "x", "option 2": "y", "right": "option 2"}, ["option 1", "option 2"], ["option 1", "option 2"]),  # noqa: E501
    ],
)  # fmt: skip
def test_usual_names_are_guessed(
    tmp_path: Path, columns: dict[str, Any], choices: list[str], labels: list[str] | None
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text((json.dumps(columns) + "\n") * 3)
    guess = guess_data(path, RANKING, has_choices=True)
    assert guess.data.choices == choices
    assert guess.data.choice_labels == labels
    assert (guess.data.texts[0], guess.data.label) == (next(iter(columns)), list(columns)[-1])
    assert guess.explain("choices") == "2 candidates a row"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": "a b c", "label": 1}, "found no columns of candidates among text, label"),
        ({"q": "a b", "c1": "x", "c2": "y", "label": "yes"}, "found yes in 'label', expected the"),
        ({"c1": "x", "c2": "y", "label": 1}, "found no question column"),
    ],
)
def test_files_without_choices_are_refused(
    tmp_path: Path, row: dict[str, Any], message: str
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(DataError, match=message):
        guess_data(path, RANKING, has_choices=True)


def test_a_right_choice_that_is_none_is_named_with_its_line(tmp_path: Path) -> None:
    path = write_choices(tmp_path / "a.jsonl", 4, names="02")
    with pytest.raises(DataError, match=r"line \d+: found '2' in 'label', expected one of 0, 1"):
        list(read_examples(path, DataConfig.model_validate(CHOICES)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"group": "idx"}, "group: found with choices"),
        ({"choice_labels": ["a"]}, "expected 2 different ones"),
        ({"choices": ["choice1"]}, "at least 2"),
        ({"choices": ["choice1", "premise"]}, "expected each once"),
        ({"kind": "classification"}, "choices: found with kind classification"),
    ],
)
def test_a_section_that_does_not_fit(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DataConfig.model_validate({**CHOICES, **changes})


def test_accuracy_counts_questions_and_no_tie() -> None:
    right = [0.9, 0.1, 0.5, 0.5, 0.2, 0.3, 0.4]
    found = Predictions(
        labels=["0", "1"],
        target=["1", "0", "1", "0", "0", "0", "1"],
        prediction=["1"] * 7,
        score=np.array([[1 - value, value] for value in right]),
        group=np.array([0, 0, 1, 1, 2, 2, 2]),
    )
    assert measure("ranking", ["accuracy"], found)["accuracy"] == pytest.approx(100 * 2 / 3)
