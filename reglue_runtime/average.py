"""Average what several models predict. A head then decodes the average.

Shape letters: B batch, T tokens, L labels.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from reglue_runtime.crf_decoding import CRF
from reglue_runtime.example import SENTENCES, InputExample

Form = Literal["distribution", "flags", "values"]
"""What a model predicts: probabilities along the last axis that sum to 1, probabilities of their
own, or numbers."""
FORMS: Mapping[str, Form] = {
    "choice": "distribution",
    "tokens": "distribution",
    "field": "values",
    "choices": "flags",
    "value": "values",
    "order": "values",
}
"""By the decoding of a head that can be averaged."""
LEAST = 1e-300
"""The least probability of which the logarithm is taken."""


def average(members: Sequence[np.ndarray], form: Form, combination: str) -> np.ndarray:
    """Return the average of the members' predictions, in 64-bit floats.

    Args:
        members: arrays of one shape.
        combination: `probabilities`, or `logits`: softmax(mean log p), the normalised geometric
            mean, which is the softmax of the mean logits; of flags by yes and no.
    """
    stacked = np.stack([member.astype(np.float64) for member in members])
    if form == "values" or combination == "probabilities":
        found: np.ndarray = stacked.mean(0)
        return found
    yes = np.exp(np.log(stacked.clip(min=LEAST)).mean(0))
    if form == "flags":
        no = np.exp(np.log((1 - stacked).clip(min=LEAST)).mean(0))
        flags: np.ndarray = yes / (yes + no)
        return flags
    distribution: np.ndarray = yes / yes.sum(-1, keepdims=True)
    return distribution


class _Member(NamedTuple):
    """An output of the graph, and the random field that it is for, if any."""

    output: str
    crf: CRF | None


class MemberAverage:
    """The average of the outputs of a graph that a note of the manifest names."""

    def __init__(self, note: Mapping[str, Any], folder: Path) -> None:  # Any: JSON
        self._members = [
            _Member(item["output"], CRF.read(folder / item["file"]) if "file" in item else None)
            for item in note["members"]
        ]
        self._form = FORMS[note["decoding"]]
        self._combination = note["combination"]

    def compute(
        self, scores: Mapping[str, np.ndarray], examples: Sequence[InputExample]
    ) -> np.ndarray:
        """Return the scores that the note's decoding reads."""
        found = [
            scores[output] if crf is None else crf.find_marginals(scores[output], _count(examples))
            for output, crf in self._members
        ]
        return average(found, self._form, self._combination)


def _count(examples: Sequence[InputExample]) -> np.ndarray:
    key = SENTENCES if SENTENCES in examples[0].tokens else "tokens"
    return np.array([len(example.tokens[key]) for example in examples])
