"""The user's questions on passages: guesses, training, answers and errors."""

import copy
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nlp_core.cli import main
from nlp_core.config.user_data import DataConfig
from nlp_core.data.guess import guess_data
from nlp_core.data.pieces import PieceVocabulary
from nlp_core.data.question_file import fit_questions, list_answers, read_questions
from nlp_core.data.split_column import TextColumn, WordText
from nlp_core.errors import ConfigError, DataError
from nlp_core.kinds import SPAN
from nlp_core.prediction.predictor import Predictor
from nlp_core.prediction.trained_model import TrainedModel
from tests.test_cli_predict import Typed
from tests.tiny_encoder import write_encoder

ANIMALS = ["cat", "dog", "owl", "fox"]
FILLERS = ["the", "old", "green", "house", "under", "sky"]
DATA = DataConfig(
    kind="span",
    format="squad",
    texts=["question", "context"],
    label="answers",
    tokens="plain_words",
)


def make_document(num: int, *, silent: bool = False) -> dict[str, Any]:
    """Return questions for the one animal of a context, some of which may have none."""
    draw = random.Random(num)
    paragraphs = []
    for idx in range(num):
        words = draw.choices(FILLERS, k=6)
        place = draw.randrange(6)
        has_none = silent and idx % 3 == 0
        words[place] = words[place] if has_none else ANIMALS[idx % 4]
        context = " ".join(words) + "."
        start = len(" ".join(words[:place])) + bool(place)
        answers = [] if has_none else [{"text": words[place], "answer_start": start}]
        item = {"id": f"q{idx}", "question": "Which animal is there?", "answers": answers}
        paragraphs.append({"context": context, "qas": [item]})
    return {"data": [{"title": "animals", "paragraphs": paragraphs}]}


def put(path: Path, document: dict[str, Any]) -> Path:
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def run(*words: object) -> None:
    main([str(word) for word in words])


def item_of(document: dict[str, Any], idx: int) -> dict[str, Any]:
    found: dict[str, Any] = document["data"][0]["paragraphs"][idx]["qas"][0]
    return found


@pytest.mark.parametrize("silent", [False, True], ids=["answered", "some without"])
def test_a_file_is_guessed_learnt_and_answered(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    silent: bool,
) -> None:
    train = put(folder / "train.json", make_document(160, silent=silent))
    new = put(folder / "new.json", make_document(30, silent=silent))
    run("new", "reading", "--train", train, "-o", "net.json")
    run("train", "net.json", "--train", train, "-o", "out", "--epochs", 6, "--lr", 0.01)
    run("predict", "out", "--data", new, "-o", "said.json")
    said, asked = json.loads(Path("said.json").read_text()), make_document(30, silent=silent)
    right = 0
    for idx in range(30):
        found, item = item_of(said, idx), item_of(asked, idx)
        assert {key: found[key] for key in item} == item
        assert 0 < found["confidence"] <= 1
        context = asked["data"][0]["paragraphs"][idx]["context"]
        assert found["prediction"] in context
        right += found["prediction"] == (item["answers"][0]["text"] if item["answers"] else "")
    assert right >= 27
    predictor = Predictor(TrainedModel.open(folder / "out"))
    measured = predictor.measure(new)
    assert measured["exact_match"] == pytest.approx(100 * right / 30)
    context = asked["data"][0]["paragraphs"][1]["context"]
    (alone,) = predictor.predict([["Which animal is there?", context]])
    assert alone.prediction == item_of(said, 1)["prediction"]
    assert alone.confidence == pytest.approx(item_of(said, 1)["confidence"], abs=1e-3)
    with pytest.raises(ConfigError, match="input 2: found a context without words"):
        predictor.predict([["Which?", "the owl"], ["Which?", "  "]])
    with pytest.raises(ConfigError, match="found 1 text, expected 2: question and context"):
        predictor.predict(["Which?"])
    capsys.readouterr()
    monkeypatch.setattr("sys.stdin", Typed("Which?", "  ", "Which animal is there?", context))
    run("predict", "out")
    shown = capsys.readouterr().out
    assert "input 1: found a context without words." in shown
    assert f"prediction: {alone.prediction}" in shown


def test_probability_that_there_is_none_is_written(folder: Path) -> None:
    train = put(folder / "train.json", make_document(40, silent=True))
    run("new", "reading", "--train", train, "-o", "net.json")
    run("train", "net.json", "--train", train, "-o", "out", "--epochs", 1)
    none = "unanswerable"
    run("predict", "out", "--data", train, "-o", "said.json", "--confidence-of", none)
    found = item_of(json.loads(Path("said.json").read_text()), 0)
    assert 0 < found[f"confidence_of_{none}"] < 1


def test_whole_passages_are_held_out_and_what_teaches_nothing_is_left_out(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = make_document(20)
    item_of(document, 3)["answers"] = [{"text": "unicorn", "answer_start": 0}]
    train = put(folder / "train.json", document)
    guess = guess_data(train, SPAN)
    assert guess.explain("label") == "NOT SURE: 1 answers are not in their context"
    assert guess.reasons["texts"] == "20 questions on 20 contexts"
    run("new", "reading", "--train", train, "-o", "net.json")
    run("train", "net.json", "--train", train, "-o", "out", "--epochs", 1, "--seed", 2)
    lines = capsys.readouterr().err.splitlines()
    assert "train no --dev, so 4 of 20 questions are held out" in lines
    assert "train split name=train rows=15" in lines
    short = DATA.model_copy(update={"max_tokens": 3})
    questions = read_questions(train, DATA)
    kept = fit_questions(questions, short, train)
    assert {len(question.passage.ends) for question in kept} == {3}
    assert [question.key for question in kept] == [
        question.key for question in questions if question.last is not None and question.last < 3
    ]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"format": "jsonl"}, "found jsonl with kind span"),
        ({"kind": "pair_classification"}, "found squad with kind pair_classification"),
        ({"texts": ["q", "c"]}, r"expected \['question', 'context'\] and answers"),
    ],
)
def test_a_section_that_does_not_fit_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DataConfig.model_validate({**DATA.model_dump(), **values})


def test_files_that_do_not_fit_are_refused(folder: Path) -> None:
    train = put(folder / "train.json", make_document(8))
    targets = list_answers(read_questions(train, DATA))
    silent = put(folder / "silent.json", make_document(8, silent=True))
    with pytest.raises(DataError, match=r"found the question 'q0' without an answer, but the"):
        read_questions(silent, DATA, targets=targets)
    with pytest.raises(DataError, match="found no questions"):
        read_questions(put(folder / "empty.json", {"data": []}), DATA)
    lost = copy.deepcopy(make_document(1))
    item_of(lost, 0)["answers"] = [{"text": "unicorn", "answer_start": 0}]
    path = put(folder / "lost.json", lost)
    with pytest.raises(DataError, match="found no question whose answer is in its context,"):
        fit_questions(read_questions(path, DATA), DATA, path)


@pytest.mark.parametrize("question", ["字" * 9, "字" * 20, "filmsssss goodssssss"])
def test_a_long_question_leaves_its_passage_room(tmp_path: Path, question: str) -> None:
    pieces = PieceVocabulary.learn([], {"dim": 8, "max_length": 16}, write_encoder(tmp_path))
    words = [["a", "film"] * 40, question.split()]
    columns = [TextColumn.build(item, np.array([0, len(item)])) for item in words]
    found = pieces.read(WordText(*columns))
    assert found.ids.lengths.max() == 16
    assert found.places is not None
    window, position = np.divmod(found.places.take(np.array([0]))[0], 16)
    assert len(set(zip(window.tolist(), position.tolist(), strict=True))) == 80


def test_mistakes_leave_nothing_behind(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train = put(folder / "train.json", make_document(8))
    run("new", "reading", "--train", train, "-o", "net.json")
    one = put(folder / "one.json", make_document(1))
    taken = make_document(2)
    item_of(taken, 1)["prediction"] = "an owl"
    calls = {
        "found one context with questions": ["train", "net.json", "--train", one, "-o", "out"],
        "unknown tokenizer": [
            *("train", "net.json", "--train", train, "-o", "out", "--set", "data.tokens=words")
        ],
        "no such file": ["new", "reading", "--train", "no.json", "-o", "other.json"],
    }
    for message, call in calls.items():
        with pytest.raises(SystemExit, match="2"):
            run(*call)
        assert message in capsys.readouterr().err
    assert not Path("out").exists()
    assert not Path("other.json").exists()
    run("train", "net.json", "--train", train, "-o", "out", "--epochs", 1)
    with pytest.raises(SystemExit, match="2"):
        run("predict", "out", "--data", put(folder / "taken.json", taken), "-o", "said.json")
    assert "question 'q1': found a key 'prediction', which is to be" in capsys.readouterr().err
    assert not Path("said.json").exists()
