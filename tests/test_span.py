"""Answers from a passage: decoding, thresholds, metrics, and a cell that learns to find them."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from nlp_core.config.dataset import DatasetConfig
from nlp_core.config.params import ExperimentConfig, Params
from nlp_core.data.preprocess import preprocess_source
from nlp_core.data.task import read_task
from nlp_core.errors import ConfigError, DataError
from nlp_core.files import digest_file, write_json
from nlp_core.heads.span import SpanHead, find_best_span
from nlp_core.kinds import SPAN
from nlp_core.metrics import Predictions, measure
from nlp_core.metrics.span import normalise_answer
from nlp_core.models.features import Featurizer
from nlp_core.models.graph import build_model
from nlp_core.models.plan import read_plan
from nlp_core.models.saving import load_model
from nlp_core.prediction.split_prediction import find_threshold, predict
from nlp_core.report.cell import CellTask, read_predictions
from nlp_core.training.cell import Cell, read_cell
from nlp_core.training.cell_run import train_cell
from tests.tiny import make_recipe, write_vectors

METRICS = ["f1", "exact_match"]
LABELS = ["answerable", "unanswerable"]


def find_by_brute_force(start: list[float], end: list[float], width: int) -> tuple[int, int]:
    pairs = [(i, j) for i in range(len(start)) for j in range(i, min(i + width, len(start)))]
    return max(pairs, key=lambda pair: start[pair[0]] + end[pair[1]])  # the first of equal ones


@pytest.mark.parametrize("width", [1, 2, 5, 30])
def test_best_span_is_that_of_brute_force(width: int) -> None:
    generator = torch.Generator().manual_seed(width)
    start = torch.randn(60, 9, generator=generator)
    end = torch.randn(60, 9, generator=generator)
    start[30:], end[30:] = start[30:].round(), end[30:].round()  # many ties
    found = find_best_span(start, end, width)
    expected = [
        find_by_brute_force(*pair, width) for pair in zip(start.tolist(), end.tolist(), strict=True)
    ]
    assert list(zip(found.first.tolist(), found.last.tolist(), strict=True)) == expected
    rows = torch.arange(60)
    assert torch.equal(found.score, start[rows, found.first] + end[rows, found.last])


def make_scores(start: list[float], end: list[float]) -> torch.Tensor:
    return torch.tensor([start, end]).t().unsqueeze(0)


def test_decoding_by_hand() -> None:
    head = SpanHead(1, 1, 1, max_answer_tokens=2)
    mask = torch.tensor([[True, True, True, False]])
    # the best end stands before the best start, the next best is too far, padding is highest
    scores = make_scores([2.0, 0.0, 3.0, 9.0], [5.0, 1.0, 3.5, 9.0])
    decoded = head.decode(scores, mask)
    assert decoded.prediction.tolist() == [[0, 0]]
    p_start = np.exp(2) / np.exp([2, 0, 3]).sum()
    p_end = np.exp(5) / np.exp([5, 1, 3.5]).sum()
    assert decoded.probability is not None
    assert decoded.probability.tolist() == [[pytest.approx(p_start * p_end)]]


def test_loss_by_hand() -> None:
    head = SpanHead(1, 1, 2)
    scores = make_scores([0.0, 1.0, 2.0, 7.0], [1.0, 0.0, 0.0, 7.0]).repeat(2, 1, 1)
    mask = torch.tensor([[True, True, False]] * 2)
    loss = head.loss(scores, torch.tensor([[0, 1], [-1, -1]]), mask)
    start, end = np.exp([0, 1, 2]).sum(), np.exp([1, 0, 0]).sum()
    found = np.log(start) - 1 + np.log(end) - 0
    none = np.log(start) - 0 + np.log(end) - 1
    assert float(loss) == pytest.approx((found + none) / 2 / 2)


def test_no_answer_is_given_above_the_threshold() -> None:
    head = SpanHead(1, 1, 2)
    scores = make_scores([1.0, 0.0, 0.0], [1.0, 0.0, 0.0])  # log p(none) - log p(i, j) = 2
    mask = torch.ones(1, 2, dtype=torch.bool)
    found = {}
    for threshold in (1.9, 2.1):
        head.threshold.fill_(threshold)
        found[threshold] = head.decode(scores, mask).prediction.tolist()
    assert found == {1.9: [[-1, -1]], 2.1: [[0, 0]]}


@pytest.mark.parametrize(
    ("odds", "gains", "expected"),
    [
        ([3.0, 1.0, 2.0], [-1.0, 1.0, 0.5], 2.5),
        ([3.0, 1.0, 2.0], [1.0, 1.0, 1.0], 4.0),
        ([3.0, 1.0, 2.0], [-1.0, -1.0, -1.0], 0.0),
        ([1.0, 1.0, 2.0], [1.0, -3.0, 0.0], 0.0),
        ([1.0, 2.0, 3.0], [1.0, -1.0, 1.0], 1.5),
    ],
)
def test_threshold_gains_most(odds: list[float], gains: list[float], expected: float) -> None:
    assert find_threshold(np.array(odds), np.array(gains)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('The "Golden"  Gate.', "golden gate"),
        ("a man, a plan", "man plan"),
        ("Theatre of an Idea", "theatre of idea"),
        ("U.S.", "us"),
        ("twenty-one", "twentyone"),
        ("\u00c9t\u00e9 \u2013 \u201cthe\u201d", "\u00e9t\u00e9 \u2013 \u201c \u201d"),
        ("the", ""),
    ],
)
def test_answers_are_normalised_as_squad_does(text: str, expected: str) -> None:
    assert normalise_answer(text) == expected


def score(target: list[list[str]], prediction: list[str], *metrics: str) -> dict[str, float]:
    return measure("span", metrics or METRICS, Predictions(LABELS, target, prediction))


@pytest.mark.parametrize(
    ("targets", "found", "f1", "exact"),
    [
        (["Denver Broncos"], "the denver broncos!", 100, 100),
        (["Denver Broncos"], "Broncos", 100 * 2 / 3, 0),
        (["Denver", "the Denver Broncos"], "Denver Broncos of 2015", 100 * 2 * 2 / 6, 0),
        (["to be or not to be"], "to to to", 100 * 2 * 2 / 9, 0),
        (["Rome"], "", 0, 0),
        ([], "", 100, 100),
        ([], "Rome", 0, 0),
        (["the"], "", 100, 100),
        (["the", "Rome"], "", 0, 0),
    ],
)
def test_scores_of_one_answer(targets: list[str], found: str, f1: float, exact: float) -> None:
    assert score([targets], [found]) == {"f1": pytest.approx(f1), "exact_match": exact}


def test_scores_of_each_sort_of_question() -> None:
    target, found = [["Rome"], ["New York"], [], []], ["Rome", "York", "", "Rome"]
    metrics = [f"{name}@{label}" for name in METRICS for label in LABELS]
    assert score(target, found, *METRICS, *metrics) == {
        "f1": pytest.approx(100 * (1 + 2 / 3 + 1) / 4),
        "exact_match": 50.0,
        "f1@answerable": pytest.approx(100 * (1 + 2 / 3) / 2),
        "f1@unanswerable": 50.0,
        "exact_match@answerable": 50.0,
        "exact_match@unanswerable": 50.0,
    }
    with pytest.raises(DataError, match="found no unanswerable question"):
        score(target[:2], found[:2], "f1@unanswerable")


SORTS = {
    "colour": ["red", "blue", "green", "pink"],
    "number": ["one", "two", "six", "ten"],
    "town": ["Rome", "Oslo", "Lima", "Bonn"],
}
GRAPH: dict[str, Any] = {
    "description": "reader",
    "source": "a test",
    "inputs": {"question": "tokens_a", "passage": "tokens_b"},
    "layers": [
        {"name": "word", "block": "word_embedding", "inputs": ["question"], "dim": 8},
        {"name": "word_b", "block": "word", "inputs": ["passage"]},
        {"name": "flow", "block": "bidaf", "inputs": ["word_b", "word"]},
        {"name": "lstm", "block": "bilstm", "inputs": ["flow"], "hidden_dim": 8},
        {"name": "both", "block": "concat", "inputs": ["flow", "lstm"]},
    ],
    "heads": {"answer": {"head": "span", "inputs": ["lstm", "both"]}},
}


def write_squad(path: Path, size: int, seed: int, *, unanswerable: bool) -> None:
    """Write passages of two words of two sorts each, and ask for words of a sort."""
    generator = np.random.default_rng(seed)
    data = []
    for number in range(size):
        sorts = [str(sort) for sort in generator.permutation(list(SORTS))]
        told = [" ".join(generator.choice(SORTS[sort], size=2)) for sort in sorts[:2]]
        text = f"It was {told[0]}. There, {told[1]} came."
        questions = []
        for which, sort in enumerate(sorts if unanswerable else sorts[:2]):
            answers = [
                {"text": words, "answer_start": text.index(words)}
                for words in told[which : which + 1]
            ]
            key, question = f"{number}-{which}", f"Which {sort}?"
            questions.append({"id": key, "question": question, "answers": answers})
        data.append({"title": f"{number}", "paragraphs": [{"context": text, "qas": questions}]})
    path.write_text(json.dumps({"data": data}), encoding="utf-8")


def write_task(*, unanswerable: bool) -> None:
    """Preprocess a task of train, of which a part is held out, and dev."""
    folder = Path("data/raw/tiny")
    folder.mkdir(parents=True)
    labels, asked = (LABELS, 3) if unanswerable else (LABELS[:1], 2)
    members, splits = {}, {}
    for seed, (name, size) in enumerate([("train", 80), ("dev", 20)]):
        path = folder / f"{name}.json"
        write_squad(path, size, seed, unanswerable=unanswerable)
        members[path.name] = {"sha256": digest_file(path), "bytes": 0, "label": None}
        splits[name] = {"file": path.name, "rows": size * asked}
    write_json(folder / "manifest.json", {"source": "tiny", "members": members})
    pins = [
        {"name": name, "mirror": name, "sha256": [{"digest": item["sha256"]}]}
        for name, item in members.items()
    ]
    task = {
        "kind": "span",
        "reader": {"name": "squad"},
        "tokens": "plain_words",
        "labels": labels,
        "metrics": METRICS,
        "splits": splits,
        "select_split": "held_out",
        "report_split": "dev",
        "held_out": {"share": 0.1, "seed": 1, "by": "article"},
    }
    about = {"title": "t", "licence": "l", "citation": "c", "homepage": "h"}
    preprocess_source("tiny", DatasetConfig.model_validate({**about, "files": pins, "task": task}))


def make_cell(*, unanswerable: bool, **recipe: Any) -> Cell:
    write_task(unanswerable=unanswerable)
    names = ["tiny_vectors", "tiny"]
    experiment = ExperimentConfig(
        table="sample",
        model="zoo/reader.json",
        data="tiny",
        init="data/processed/tiny_vectors",
        recipe="short",
        seeds=[1],
    )
    params = Params(
        numerics=1,
        tasks=names,
        tables=["sample"],
        recipes={"short": make_recipe(**recipe)},
        experiments={"tiny_cell": experiment},
    )
    return read_cell("tiny_cell", params)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project with word vectors and a model; the working folder of the test."""
    monkeypatch.chdir(tmp_path)
    write_vectors(tmp_path)
    write_graph()
    return tmp_path


def write_graph(**head: Any) -> Path:
    graph = json.loads(json.dumps(GRAPH))
    graph["heads"]["answer"] |= head
    path = Path("zoo/reader.json")
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(graph))
    return path


@pytest.mark.parametrize("unanswerable", [False, True])
def test_cell_learns_to_read_and_its_file_is_measured(project: Path, unanswerable: bool) -> None:
    cell = make_cell(
        unanswerable=unanswerable,
        epochs=7 if unanswerable else 5,
        batch_size=8,
        optimizer={"name": "adam", "lr": 0.02},
    )
    folder = train_cell(cell)
    note = json.loads((folder / "cell.json").read_text())["tasks"]["tiny"]
    path = folder / "seed-1/predictions/tiny.parquet"
    found = {
        (item.split, item.selection): item.predictions
        for item in read_predictions(path, CellTask(**note), "finetune@tiny_cell")
    }
    assert set(found) == {("dev", "honest"), ("dev", "paper"), ("held_out", "honest")}
    scores = measure("span", METRICS, found["dev", "honest"])
    assert scores["exact_match"] > 80
    assert scores["exact_match"] <= scores["f1"]
    if unanswerable:
        for label in LABELS:
            assert measure("span", [f"f1@{label}"], found["dev", "honest"])[f"f1@{label}"] > 80
    lines = (folder / "seed-1/history.jsonl").read_text().splitlines()
    events = [event for event in map(json.loads, lines) if event["event"] == "validate"]
    for split, selection in (("held_out", "honest"), ("dev", "paper")):
        best = max(event["metrics"]["f1"] for event in events if event["split"] == split)
        predictions = found[split, selection]
        assert measure("span", ["f1"], predictions)["f1"] == pytest.approx(best)
    check_scores(path, unanswerable=unanswerable)
    check_saved(cell, folder)


def check_scores(path: Path, *, unanswerable: bool) -> None:
    """No answer is given where its odds are above one threshold for all questions."""
    rows = [row for row in pq.read_table(path).to_pylist() if row["selection"] == "honest"]
    assert all(len(row["score"]) == 1 + unanswerable for row in rows)
    assert all(0 < value < 1 for row in rows for value in row["score"])
    if unanswerable:
        rows.sort(key=lambda row: row["score"][1] / row["score"][0])
        silent = [row["prediction"] == "" for row in rows]
        assert 0 < sum(silent) < len(silent)
        assert all(first <= second for first, second in pairwise(silent))


def check_saved(cell: Cell, folder: Path) -> None:
    """The model that is read back, with its threshold, predicts as the trained one."""
    model, featurizers = load_model(
        folder / "seed-1", cell.plan, kinds={None: SPAN}, init=cell.init
    )
    featurizer = featurizers[None]
    found = predict(model, featurizer.encode(cell.task.read_split("dev")), featurizer.targets)
    rows = pq.read_table(folder / "seed-1/predictions/tiny.parquet").to_pylist()
    rows = [row for row in rows if (row["split"], row["selection"]) == ("dev", "honest")]
    assert found.prediction == [row["prediction"] for row in rows]
    assert [row["target"] for row in rows] == cell.task.read_split("dev").target


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ({"inputs": ["flow"]}, "inputs: found 1, expected 2"),
        (
            {"inputs": ["flow", "word"]},
            "over tokens_b and tokens_a, expected layers over one text",
        ),
        ({"inputs": ["flow", "bot"]}, "unknown layer 'bot'. Did you mean 'both'"),
        ({"inputs": ["word", "word"]}, "a layer over tokens_a, expected one over tokens_b"),
        ({"head": "tagging", "inputs": ["flow"]}, "expected one for a task of kind span"),
    ],
)
def test_head_that_does_not_fit_is_refused(
    project: Path, head: dict[str, Any], message: str
) -> None:
    graph = json.loads(write_graph(**head).read_text())
    graph["heads"]["more"] = {"head": "span", "inputs": ["lstm", "both"]}  # so that all are read
    Path("zoo/reader.json").write_text(json.dumps(graph))
    write_task(unanswerable=False)
    task = read_task(Path("data/processed/tiny"))

    def build() -> None:
        plan = read_plan(Path("zoo/reader.json"))
        train = task.read_split("train")
        build_model(plan, Featurizer.build(plan, task, train, Path()), kind=task.kind)

    with pytest.raises(ConfigError, match=message) as caught:
        build()
    assert "\n" not in str(caught.value)
