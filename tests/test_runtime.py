"""The runtime cuts long lists in parts, names the wrong example, and rejects non-numbers."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nlp_core.config import column
from reglue_runtime import Bundle, BundleError, bundle
from reglue_runtime.crf_decoding import CRF, MANY_LABELS
from reglue_runtime.decoding import _tag
from reglue_runtime.example import FEATURES, ExampleError, InputExample, Reader
from reglue_runtime.manifest import Manifest
from reglue_runtime.text import EMPTY_TOKEN

COLUMN = "token_dense.x"
LENGTHS = {"name": "lengths", "source": "lengths", "column": "tokens"}
NUMBERS = {"name": "x", "source": "numbers", "column": COLUMN, "width": None}


class Counter:
    """A graph that says how many tokens an example has, and notes what is asked at once."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []

    def run(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        self.batches.append(arrays["lengths"].tolist())
        return {"score": arrays["lengths"].astype(np.float32)}


def build(graph: Counter, *inputs: dict[str, Any]) -> Bundle:
    """Return a bundle of texts around a graph."""
    manifest = Manifest(
        kind="regression",
        variant="float32",
        tokenizer={"name": "spaces", "substitutions": None, "max_tokens": None},
        texts=["text"],
        inputs=[LENGTHS, *inputs],
        heads=[{"output": "score", "decoding": "value", "target": "score", "labels": []}],
        graph="",
    )
    return Bundle(Path(), manifest, graph)


def test_long_examples_are_predicted_in_parts_and_short_ones_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bundle, "AREA", 2 * 20**2)
    graph = Counter()
    # with what stands behind each token, 10 characters, 2, 20 and so on
    sizes = [5, 1, 10, 5, 20, 10, 5, 1, 5]
    found = build(graph).predict(["a " * size for size in sizes], batch_size=4)
    assert [item["score"] for item in found] == sizes
    # alone at most one of 28 characters, two of 20 or eight of 10
    assert graph.batches == [[1, 1, 5, 5], [5, 5], [10, 10], [20]]


def test_a_part_ends_before_a_long_word_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "AREA", 20**2)
    graph = Counter()
    # spellings are as wide as the longest word, for each of the words
    assert build(graph).predict(["a b c", "a" * 30, "a b"]) == [
        {"score": 3.0},
        {"score": 1.0},
        {"score": 2.0},
    ]
    assert graph.batches == [[1], [2, 3]]


def test_batches_of_an_encoder_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = bundle.build_sources(build(Counter()).manifest, Path())
    monkeypatch.setattr(bundle, "build_sources", lambda manifest, folder: sources)
    graph = Counter()
    texts = ["word " * 300, *["word " * 60] * 7, *["word"] * 40]
    build(graph, {"source": "windows"}).predict(texts)
    assert [len(batch) for batch in graph.batches] == [32, 8, 5, 2, 1]


def test_ordinary_texts_go_together() -> None:
    graph = Counter()
    build(graph).predict(["word " * 300] * 32)
    assert [len(batch) for batch in graph.batches] == [32]


@pytest.mark.parametrize(
    ("examples", "place"),
    [
        ([{"text": "a long text", COLUMN: [1, 2, 3]}, {"text": "hi"}], 1),
        ([{"text": "a long text", COLUMN: [1, 2]}, {"text": "hi", COLUMN: [1]}], 0),
        (["hi"], 0),
    ],
)
def test_the_example_that_has_no_numbers_is_the_one_to_blame(
    examples: Sequence[Any], place: int
) -> None:
    with pytest.raises(ExampleError, match=f"^example {place + 1}: ") as caught:
        build(Counter(), NUMBERS).predict(examples)
    assert caught.value.place == place


@pytest.mark.parametrize(
    "values",
    [
        ["1", "2"],
        [True, 2.0],
        np.array([True, False]),
        [float("nan"), 1],
        [float("inf"), 1],
        [1e39, 1],
        [10**400, 1],
        [None, 1],
        [[1], [2]],
        [1],
        "12",
        None,
        3.0,
    ],
)
def test_what_is_no_finite_number_is_refused(values: Any) -> None:
    with pytest.raises(BundleError, match=r"in 'token_dense\.x', expected 2 numbers, finite"):
        build(Counter(), NUMBERS).predict([{"text": "a b", COLUMN: values}])


@pytest.mark.parametrize(
    "values", [[1, 2.5], (1, 2.5), np.array([1, 2.5], np.float32), [np.int64(1), np.float32(2.5)]]
)
def test_numbers_of_every_kind_are_read(values: Any) -> None:
    (_, arrays) = build(Counter(), NUMBERS).featurize([{"text": "a b", COLUMN: values}])
    assert arrays["x"].tolist() == [[[1.0], [2.5]]]


def test_a_text_alone_is_not_taken_for_a_list_of_letters() -> None:
    with pytest.raises(BundleError, match="found a text, expected a list"):
        build(Counter(), NUMBERS).predict("tasty")


def test_a_message_shows_the_beginning_of_a_long_value() -> None:
    with pytest.raises(BundleError) as caught:
        build(Counter(), NUMBERS).predict([{"text": "a b", COLUMN: [1] * 10_000}])
    assert len(str(caught.value)) < 200


def test_a_sentence_without_tokens_is_an_empty_text() -> None:
    manifest = replace(build(Counter()).manifest, texts=["sentences"])
    both = [Reader(manifest).read([empty, ["a"]], 0) for empty in ([], "")]
    assert both[0].tokens["tokens"] == both[1].tokens["tokens"] == [EMPTY_TOKEN, "a"]
    assert both[0].extras == both[1].extras == {"sentences": [1, 1]}


@pytest.fixture
def chooser() -> Bundle:
    head = {"output": "score", "decoding": "choice", "target": "label", "labels": ["a"]}
    return Bundle(Path(), replace(build(Counter()).manifest, heads=[head]), Counter())


def test_an_example_without_any_chance_has_no_label(chooser: Bundle) -> None:
    unlikely = [{"label": "", "confidence": 0.0, "scores": {"a": 0.0}}]
    assert chooser.abstain(unlikely, 0.0) == unlikely
    likely = [{"label": "", "confidence": 0.1, "scores": {"a": 0.1}}]
    assert chooser.abstain(likely, 0.0)[0]["label"] == "a"


@pytest.mark.parametrize("least", [5, -0.1, float("nan"), "0.5"])
def test_a_threshold_that_is_no_probability_is_refused(chooser: Bundle, least: Any) -> None:
    with pytest.raises(BundleError, match=r"found .*, expected a number from 0 to 1"):
        chooser.find_least(least)


def test_scores_that_are_no_numbers_have_a_path_all_the_same() -> None:
    size = MANY_LABELS
    field = CRF(np.zeros(size), np.zeros(size), np.zeros((size, size)))
    scores = np.full((1, 3, size), np.nan, np.float32)
    (path,), (chances,) = field.decode(scores, np.array([3]))
    assert len(path) == 3
    assert np.isnan(chances).all()


@pytest.mark.parametrize("example", ["b \ud800", ["b", "\ud800"]])
def test_half_a_character_is_refused(example: Any) -> None:
    with pytest.raises(BundleError, match=r"example 2: found '\\ud800', half a character"):
        build(Counter()).predict(["a", example])


def test_the_runtime_knows_all_columns_that_a_model_can_read() -> None:
    assert set(FEATURES) == {
        *(column.SYMBOLS, column.NUMBERS, column.TOKEN_NUMBERS, column.TOKEN_VECTORS)
    }


def test_a_text_without_words_has_no_entity() -> None:
    scores = np.array([[[0.1, 0.9]]], np.float32)
    for words, expected in (([EMPTY_TOKEN], []), (["Rome"], ["LOC"])):
        example = InputExample({"text": ""}, {"tokens": words}, {}, 0)
        (found,) = _tag(scores, [example], labels=["O", "B-LOC"], scheme="BIO")
        assert [entity["type"] for entity in found["entities"]] == expected
