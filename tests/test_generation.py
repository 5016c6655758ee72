"""Texts that are written: ids of words and copies, search and draws, metrics, readers."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from nlp_core.blocks.option import check_options
from nlp_core.data.formats.squad import mark_answer
from nlp_core.data.readers.example import Passage, Question
from nlp_core.data.split_column import LabelColumn, TextColumn
from nlp_core.data.tokenization import LOCATORS
from nlp_core.data.written_text import choose_words, count_words, number_outputs, number_sources
from nlp_core.errors import ConfigError
from nlp_core.heads.generation import SequenceHead
from nlp_core.metrics import Predictions, measure
from reglue_runtime.search import choose_nucleus
from reglue_runtime.writing import (
    END,
    UNKNOWN,
    Decoder,
    RuntimeWriter,
    TextRules,
    draw_number,
    number_copies,
    number_words,
    write_words,
)

WORDS = ["call", "in"]
TOKENS = ["ring", "Ada", "in", "Ada"]
NUMBER = {word: place for place, word in enumerate(WORDS)}


def test_ids_write_words_and_copies() -> None:
    # END 0, UNKNOWN 1, call 2, in 3; copies of places from 4 on
    assert number_copies(TOKENS, NUMBER) == [4, 5, 3, 5]
    ids = number_words(["call", "Ada", "at", "ring"], TOKENS, NUMBER)
    assert ids == [2, 5, UNKNOWN, 4, END]
    assert write_words([2, 5, 3, END, 4], WORDS, TOKENS) == "call Ada in"


def test_columns_are_numbered_row_by_row() -> None:
    source = TextColumn.build([*TOKENS, "in"], np.array([0, 4, 5]))
    output = TextColumn.build(["call", "Ada", "in"], np.array([0, 2, 3]))
    rows = np.array([0, 1])
    assert number_sources(source, WORDS).take(rows, -1).tolist() == [[4, 5, 3, 5], [3, -1, -1, -1]]
    assert number_outputs(output, source, WORDS).take(rows, -1).tolist() == [[2, 5, 0], [3, 0, -1]]
    assert list(LabelColumn("output", output)) == ["call Ada", "in"]


def test_the_most_frequent_words_can_be_written() -> None:
    counts = count_words([["b", "a", "b"], ["c", "a", "b"]])
    assert choose_words(counts, 2) == ["a", "b"]
    assert choose_words(counts, 9) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("top_p", "share", "choice"),
    [(0.5, 0.99, 1), (0.7, 0.0, 1), (0.7, 0.99, 2), (1.0, 0.99, 0), (0.8, 0.62, 1), (0.8, 0.63, 2)],
)
def test_a_nucleus_is_the_least_set_of_likely_choices(
    top_p: float, share: float, choice: int
) -> None:
    # in order: choice 1 of 0.5, then 2 of 0.3, then 0 of 0.2
    assert choose_nucleus(np.log([0.2, 0.5, 0.3]), top_p, share) == choice


def test_draws_depend_on_the_text_and_not_on_its_batch() -> None:
    found = [draw_number(1, [2, 3], step) for step in range(200)]
    assert found == [draw_number(1, [2, 3], step) for step in range(200)]
    assert 0.4 < np.mean(found) < 0.6
    assert draw_number(1, [2, 3], 0) != draw_number(2, [2, 3], 0) != draw_number(2, [3, 2], 0)


SEARCHES = [
    {"beam": 1},
    {"beam": 3, "penalty": 1.0},
    {"beam": 2, "experts": 2},
    {"top_p": 0.9, "temperature": 0.7, "sampling_seed": 4},
]


def build_head(**options: object) -> SequenceHead:
    torch.manual_seed(5)
    head = SequenceHead(6, 2, hidden_dim=5, symbol_dim=3, max_words=6, **options)
    with torch.no_grad():
        for weight in head.parameters():
            weight.mul_(4.0)
    return head.eval()


class Given:
    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(1)
        self.x = torch.randn(3, 4, 6, generator=generator)
        self.mask = torch.arange(4) < torch.tensor([[4], [1], [3]])
        self.x = self.x.masked_fill(~self.mask.unsqueeze(-1), 0.0)
        self.rows = [[4, 5, 3, 5], [2], [4, 3, 6]]
        self.copies = torch.tensor([[4, 5, 3, 5], [2, -1, -1, -1], [4, 3, 6, -1]])


def write(head: SequenceHead, given: Given) -> tuple[list[list[int]], Tensor]:
    decoded = head.decode(head(given.x, given.mask, given.copies), given.mask)
    assert decoded.probability is not None
    ids = [[item for item in row if item >= 0] for row in decoded.prediction.tolist()]
    return ids, decoded.probability[:, 0]


@pytest.mark.parametrize("options", SEARCHES, ids=str)
def test_the_runtime_writes_what_the_head_writes(options: dict[str, object]) -> None:
    head, given = build_head(**options), Given()
    decoders = [
        Decoder({key: item.numpy() for key, item in decoder.state_dict().items()})
        for decoder in head.decoders
    ]
    found = RuntimeWriter(decoders, head.search).write(given.x.numpy(), given.rows)
    ids, chances = write(head, given)
    assert [[item for item in row if item >= 0] for row in found.choices.tolist()] == ids
    torch.testing.assert_close(torch.from_numpy(np.exp(found.log_prob)), chances, rtol=1e-4, atol=0)
    assert all(row[-1] == END and UNKNOWN not in row for row in ids)


@pytest.mark.parametrize("options", SEARCHES, ids=str)
def test_an_answer_has_the_probability_of_training(options: dict[str, object]) -> None:
    head, given = build_head(**options), Given()
    head.search = head.search._replace(temperature=1.0, max_words=30)
    ids, chances = write(head, given)
    width = max(map(len, ids))
    target = torch.tensor([row + [-1] * (width - len(row)) for row in ids])
    scores = head(given.x, given.mask, given.copies, target)
    # without the unknown word, and for experts divided by the sum, a text is only likelier
    assert bool((scores.sum((1, 2)).exp() <= chances * (1 + 1e-4)).all())


def test_a_text_is_the_same_in_every_batch() -> None:
    head, given = build_head(top_p=1.0, temperature=2.0), Given()
    ids, _ = write(head, given)
    one = Given()
    one.x, one.mask, one.copies = one.x[2:, :3], one.mask[2:, :3], one.copies[2:, :3]
    assert write(head, one)[0] == ids[2:]


def test_a_beam_with_draws_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"top_p: found 0\.9 with a beam of 2"):
        SequenceHead(4, 3, beam=2, top_p=0.9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sampling_seed": 3}, r"sampling_seed: found 3 without top_p"),
        ({"top_p": 0.9, "penalty": 0.5}, r"penalty: found 0\.5 with top_p"),
    ],
)
def test_an_option_that_would_do_nothing_is_an_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SequenceHead(4, 3, **options)


def test_metrics_by_hand() -> None:
    right, found = ["a b c d e", "x y"], ["a b c d f", "x y"]
    values = measure(
        "generation", ["bleu", "rouge_l", "exact_match", "chrf"], Predictions([], right, found)
    )
    # precisions 6/7, 4/5, 2/3, 1/2; equal lengths
    assert values["bleu"] == pytest.approx(100 * (6 / 7 * 4 / 5 * 2 / 3 * 1 / 2) ** 0.25)
    assert values["rouge_l"] == pytest.approx(100 * (0.8 + 1.0) / 2)
    assert values["exact_match"] == 50.0
    assert 50 < values["chrf"] < 100


def test_an_answer_is_marked_in_its_part_of_the_passage() -> None:
    text = "one two, three four five"
    starts, ends = np.array(LOCATORS.get("plain_words")(text)).T
    question = Question("q", "which ?", Passage(1, 1, text, starts, ends), ("three",), 3, 3)
    assert mark_answer(question, 2) == "two, \u00ab three \u00bb four five"
    assert mark_answer(question._replace(first=0, last=5), 9) == f"\u00ab {text} \u00bb"


def test_a_text_ends_even_if_its_end_is_impossible() -> None:
    torch.manual_seed(1)
    head = SequenceHead(4, 3, hidden_dim=6, symbol_dim=3, max_words=3).eval()
    with torch.no_grad():
        head.decoders[0].out.bias[END] = -300.0  # its probability is 0 in 32 bits
    mask, copies = torch.ones(1, 2, dtype=torch.bool), torch.tensor([[2, 3]])
    found = head.decode(head(torch.randn(1, 2, 4), mask, copies), mask)
    assert found.probability is not None
    assert found.probability.isfinite().all()
    assert found.prediction[0, -1] == END
    rules = TextRules(np.array([2]), max_words=1)
    assert rules.restrict(np.full((1, 4), -np.inf, np.float32))[0, END] == 0.0


def test_an_infinite_temperature_is_refused() -> None:
    with pytest.raises(ConfigError, match="here: temperature"):
        check_options(SequenceHead, {"temperature": float("inf")}, where="here")
