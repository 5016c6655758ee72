"""Phrases with types: the file, the matches, the vectors, a trained model, and its key."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nlp_core.blocks.embedding import GazetteerEmbedding
from nlp_core.blocks.option import check_options
from nlp_core.data.gazetteer import GazetteerVocabulary, read_gazetteer
from nlp_core.data.split_column import TextColumn
from nlp_core.errors import ConfigError, DataError
from tests.tiny_features import TAGGING, make_cell, preprocess, root, train

__all__ = ["root"]
ENTRIES = [
    ("New York", "city", 1.0),
    ("New York", "state", 0.5),
    ("York", "city", 0.25),
    ("New York Times", "paper", 2.0),
]
GRAPH: dict[str, Any] = {
    "inputs": {"words": "tokens"},
    "layers": [
        {"name": "word", "block": "word_embedding", "inputs": ["words"], "dim": 4, "min_count": 99},
        {
            "name": "place",
            "block": "gazetteer_embedding",
            "inputs": ["words"],
            "dim": 4,
            "file": "lists/places.tsv",
            "lowercase": True,
        },
        {"name": "token", "block": "concat", "inputs": ["word", "place"]},
    ],
    "heads": {"tags": {"head": "tagging", "inputs": ["token"]}},
}


def read(gazetteer: GazetteerVocabulary, *texts: str) -> np.ndarray:
    column = TextColumn.join([text.split() for text in texts])
    (weights,) = gazetteer.read(column).take(np.arange(len(texts)))
    return weights


def test_the_longest_phrase_from_the_left_counts() -> None:
    gazetteer = GazetteerVocabulary.build(ENTRIES, lowercase=False)
    assert gazetteer.phrases.types == ["city", "paper", "state"]
    weights = read(gazetteer, "in New York Times York", "New York new york", "New New York", "New")
    city, paper, both, none = [0.25, 0, 0], [0, 2, 0], [1, 0, 0.5], [0, 0, 0]
    assert weights.tolist() == [
        [none, paper, paper, paper, city],
        [both, both, none, none, none],
        [none, both, both, none, none],
        [none] * 5,
    ]


def test_no_phrase_crosses_the_end_of_a_text() -> None:
    weights = read(GazetteerVocabulary.build(ENTRIES[:2], lowercase=False), "New", "York")
    assert not weights.any()


def test_without_case_phrases_fall_together() -> None:
    entries = [("new york", "city", 1.0), ("NEW  York", "city", 0.5), ("New York", "state", 1.0)]
    weights = read(GazetteerVocabulary.build(entries, lowercase=True), "nEw yOrK")
    assert weights.tolist() == [[[1.5, 1.0], [1.5, 1.0]]]


def test_stored_phrases_are_those_of_the_file() -> None:
    gazetteer = GazetteerVocabulary.build([*ENTRIES, ("x", "city", 1e-9)], lowercase=True)
    restored = GazetteerVocabulary.from_note(
        gazetteer.describe(), {"lowercase": True}, Path("nowhere")
    )
    assert restored.entries == gazetteer.entries
    texts = ("a new york times", "york x")
    np.testing.assert_array_equal(read(restored, *texts), read(gazetteer, *texts))


def test_vectors_by_hand() -> None:
    block = GazetteerEmbedding(2, dim=2, file="f.tsv")
    with torch.no_grad():
        block.weight.copy_(torch.tensor([[1.0, 2.0], [10.0, 20.0]]))
    weights = torch.tensor([[[1.0, 0.5], [0.0, 0.0], [1.0, 1.0]]])
    output = block(weights, torch.tensor([[True, True, False]]))
    assert output.tolist() == [[[6.0, 12.0], [0.0, 0.0], [0.0, 0.0]]]


def test_a_file_is_read(root: Path) -> None:
    path = root / "places.tsv"
    path.write_text("New  York\tcity\n\nYork\tcity\t0.25\n", encoding="utf-8")
    assert read_gazetteer(path) == [("New York", "city", 1.0), ("York", "city", 0.25)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("York\n", r"line 1: found 1 column, expected `phrase TAB type \[TAB weight\]`"),
        ("a\tb\n\t c\n", "line 2: found 2 columns"),
        ("a\tb\tc\td\n", "line 1: found 4 columns"),
        ("a\tb\tmuch\n", "line 1: found 'much' in the column 'weight', expected a finite number"),
        ("a\tb\tnan\n", "line 1: found 'nan'"),
        ("a\tb\t1 2\n", "line 1: found 2 weights, expected one"),
        ("a\tb\nc\tb\na\tb\t2\n", "line 3: found 'a' of type 'b' again, as on line 1"),
        ("\n\n", "found no entry"),
        (None, "no such file, which a gazetteer_embedding layer names"),
    ],
)
def test_a_malformed_file_is_refused(root: Path, text: str | None, message: str) -> None:
    path = root / "places.tsv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        read_gazetteer(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("path", ["/etc/hosts", "../secret.tsv", "a//b.tsv", ""])
def test_a_file_outside_the_project_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="here: file: found"):
        check_options(GazetteerEmbedding, {"dim": 2, "file": path}, where="here")


def write_columns(size: int, seed: int, names: list[str]) -> str:
    generator = np.random.default_rng(seed)
    lines = []
    for _ in range(size):
        lines += ["a P C O"] * int(generator.integers(0, 3))
        words = str(generator.choice(names)).split()
        lines += [f"{word} P C {'I' if idx else 'B'}-Q" for idx, word in enumerate(words)]
        lines += ["b P C O", ""]
    return "\n".join(lines) + "\n"


def test_a_model_finds_phrases_and_needs_the_file_no_more(root: Path) -> None:
    task = {**TAGGING, "reader": {**TAGGING["reader"], "features": {}}}
    files = {
        "train.txt": write_columns(40, 1, ["Rome", "Oslo"]),
        "test.txt": write_columns(20, 2, ["Bonn", "OSLO"]),
    }
    preprocess(root, task, files)
    path = root / "lists/places.tsv"
    path.parent.mkdir()
    path.write_text("Rome\tcity\noslo\tcity\nBonn\tcity\t1.5\n")
    cell = make_cell(root, GRAPH)
    key = cell.key
    assert train(cell)["f1"] > 95
    text = path.read_text()
    path.write_text(text + "Paris\tcity\n")
    assert cell.key != key
    path.write_text(text)
    assert cell.key == key
    path.unlink()
    with pytest.raises(DataError, match=r"lists/places\.tsv: no such file"):
        make_cell(root, GRAPH)
