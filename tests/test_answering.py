"""The runtime answers as the head does, and so surely."""

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import torch

from nlp_core.heads.span import SpanHead
from nlp_core.models.batch import EncodedSplit
from nlp_core.models.graph import GraphModel
from nlp_core.prediction.prediction import name_answers
from reglue_runtime.decoding import find_answers
from reglue_runtime.example import ExampleError, InputExample
from reglue_runtime.text import EMPTY_TOKEN, Offsets, locate_spaces

TOKENS = ["in", "New", "York"]


def make_example() -> InputExample:
    return InputExample({"text_b": " ".join(TOKENS)}, {"tokens_b": TOKENS}, {}, 0)


@pytest.mark.parametrize("threshold", [-9.0, 9.0, None])
def test_confidence_is_that_of_what_is_answered(threshold: float | None) -> None:
    head = SpanHead(1, 1, 1 if threshold is None else 2, max_answer_tokens=2)
    if threshold is not None:
        head.threshold.fill_(threshold)
    size = len(TOKENS) + int(threshold is not None)
    scores = torch.randn(1, size, 2, generator=torch.Generator().manual_seed(1))
    mask = torch.ones(1, len(TOKENS), dtype=torch.bool)
    (found,) = find_answers(
        scores.numpy(),
        [make_example()],
        locate=lambda _: [Offsets(0, 2), Offsets(3, 6), Offsets(7, 11)],
        max_tokens=2,
        threshold=threshold,
    )
    decoded = head.decode(scores, mask)
    assert decoded.probability is not None
    place = 1 if threshold == -9.0 else 0  # the second is that of no answer
    assert (found["answer"] == "") == (place == 1)
    assert found["confidence"] == pytest.approx(float(decoded.probability[0, place]), abs=1e-12)
    model = cast(GraphModel, SimpleNamespace(head=lambda name: head))
    encoded = cast(EncodedSplit, SimpleNamespace(write_answer=lambda *_: found["answer"]))
    named = name_answers(model, {"span": (scores, mask)}, encoded, np.arange(1), {"answers": []})
    assert named["answers"][0].confidence == pytest.approx(found["confidence"], abs=1e-12)


@pytest.mark.parametrize("threshold", [0.0, None])
def test_a_passage_without_words_is_refused_as_the_trained_model_does(
    threshold: float | None,
) -> None:
    example = InputExample({"text_b": "  "}, {"tokens_b": [EMPTY_TOKEN]}, {}, 3)
    with pytest.raises(ExampleError, match="example 4: found a passage without words"):
        find_answers(
            np.zeros((1, 2, 2), np.float32),
            [example],
            locate=locate_spaces,
            max_tokens=2,
            threshold=threshold,
        )
