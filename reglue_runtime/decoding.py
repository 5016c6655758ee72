"""From the graph's scores to predictions: one decoding for each kind of head.

Shape letters: B batch, T tokens, L labels.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from reglue_runtime.answering import find_answers
from reglue_runtime.crf import CRF
from reglue_runtime.example import LOCATORS, InputExample
from reglue_runtime.span import find_spans

Prediction: TypeAlias = dict[str, Any]  # Any: labels, scores, numbers
Decoding: TypeAlias = Callable[[np.ndarray, Sequence[InputExample]], list[Prediction]]


def build_decoding(note: Mapping[str, Any], tokenizer: Mapping[str, Any], folder: Path) -> Decoding:
    labels = note["labels"]
    match note["decoding"]:
        case "choice":
            return partial(_choose, labels=labels)
        case "choices":
            return partial(_choose_several, labels=labels, threshold=note["threshold"])
        case "value":
            return _read_values
        case "order":
            return partial(_rank, labels=labels)
        case "tokens":
            return partial(_tag, labels=labels, scheme=note["scheme"])
        case "field":
            crf = CRF.read(folder / note["file"])
            return partial(_tag, labels=labels, scheme=note["scheme"], crf=crf)
        case "span":
            threshold = None if note["threshold"] is None else float(note["threshold"])
            return partial(
                find_answers,
                locate=LOCATORS[tokenizer["name"]],
                max_tokens=note["max_answer_tokens"],
                threshold=threshold,
            )
        case name:
            raise AssertionError(name)


def _choose(
    scores_BL: np.ndarray, examples: Sequence[InputExample], *, labels: Sequence[str]
) -> list[Prediction]:
    best_B = scores_BL.argmax(-1)
    return [
        {"label": labels[idx], "confidence": float(row[idx]), "scores": _name(labels, row)}
        for idx, row in zip(best_B, scores_BL, strict=True)
    ]


def _choose_several(
    scores_BL: np.ndarray,
    examples: Sequence[InputExample],
    *,
    labels: Sequence[str],
    threshold: float,
) -> list[Prediction]:
    found = []
    for row in scores_BL:
        chosen = np.flatnonzero(row >= np.float32(threshold))
        names = [labels[idx] for idx in chosen.tolist()]
        found.append(
            {"labels": names, "confidence": row[chosen].tolist(), "scores": _name(labels, row)}
        )
    return found


def _read_values(scores_B: np.ndarray, examples: Sequence[InputExample]) -> list[Prediction]:
    return [{"score": float(value)} for value in scores_B]


def _rank(
    scores_B: np.ndarray, examples: Sequence[InputExample], *, labels: Sequence[str]
) -> list[Prediction]:
    """Predict which candidates are right; `score` orders the candidates of a question."""
    right_B = 1 / (1 + np.exp(-scores_B.astype(np.float64)))
    odds_BL = np.stack([1 - right_B, right_B], -1)
    return [
        {
            "label": labels[int(value > 0)],
            "confidence": float(probs[int(value > 0)]),
            "scores": _name(labels, probs),
            "score": float(value),
        }
        for value, probs in zip(scores_B, odds_BL, strict=True)
    ]


def _tag(
    scores_BTL: np.ndarray,
    examples: Sequence[InputExample],
    *,
    labels: Sequence[str],
    scheme: str | None,
    crf: CRF | None = None,
) -> list[Prediction]:
    tokens = [example.tokens["tokens"] for example in examples]
    sizes = np.array(list(map(len, tokens)))
    if crf is None:
        paths = [row[:size].argmax(-1) for row, size in zip(scores_BTL, sizes, strict=True)]
        probs = [
            row[np.arange(len(path)), path] for row, path in zip(scores_BTL, paths, strict=True)
        ]
    else:
        paths, probs = crf.decode(scores_BTL, sizes)
    found = []
    for words, path, row in zip(tokens, paths, probs, strict=True):
        tags = [labels[idx] for idx in path.tolist()]
        item: Prediction = {"tokens": words, "tags": tags, "confidence": row.tolist()}
        if scheme is not None:
            item["entities"] = find_entities(words, tags)
        found.append(item)
    return found


def _name(labels: Sequence[str], row: np.ndarray) -> dict[str, float]:
    return dict(zip(labels, row.tolist(), strict=True))


def find_entities(words: Sequence[str], tags: Sequence[str]) -> list[dict[str, Any]]:
    """Return type, text, first and last token of the entities of `find_spans`."""
    return [
        {"type": kind, "first": start, "last": end - 1, "text": " ".join(words[start:end])}
        for start, end, kind in find_spans(tags)
    ]
