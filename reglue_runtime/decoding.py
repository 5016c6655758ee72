"""From the graph's scores to predictions: one decoding for each kind of head.

In 64-bit floats where the heads are. Shape letters: B batch, T tokens, L labels, D width of a
vector; S positions: the tokens of a passage, after one for "no answer" if questions may have none.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from reglue_runtime.crf_decoding import CRF
from reglue_runtime.example import SENTENCES, ExampleError, InputExample
from reglue_runtime.pieces import PieceText
from reglue_runtime.text import EMPTY_TOKEN, LOCATORS, Offsets
from reglue_runtime.tree import OPEN, write_tree
from reglue_runtime.tree_writing import TreeRules
from reglue_runtime.writing import RuntimeWriter, number_copies, write_words

Prediction: TypeAlias = dict[str, Any]  # Any: labels, scores, numbers
Decoding: TypeAlias = Callable[[np.ndarray, Sequence[InputExample]], list[Prediction]]
PASSAGE, TOKENS = "text_b", "tokens_b"

AUTO: Final = "auto"
"""The threshold that training chose."""
ABSTAINED = ""
"""The label of an example that is not answered."""


def build_decoding(
    note: Mapping[str, Any], tokenizer: Mapping[str, Any], folder: Path, num_threads: int
) -> Decoding:
    labels = note["labels"]
    match note["decoding"]:
        case "choice":
            return partial(_choose, labels=labels)
        case "choices":
            return partial(_choose_several, labels=labels, threshold=note["threshold"])
        case "value":
            return _read_values
        case "vector":
            return _read_vectors
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
            return _build_writing(name, note, folder, num_threads)


def _build_writing(name: str, note: Mapping[str, Any], folder: Path, num_threads: int) -> Decoding:
    if name == "pieces":
        return PieceText.read(note, folder, num_threads).write
    begin = partial(TreeRules, note=note["rules"]) if name == "tree" else None
    writer = RuntimeWriter.read(note, folder / note["file"], begin)
    if name == "tree":
        return partial(_write_tree, writer=writer, labels=note["labels"])
    assert name == "text", name
    return partial(_write, writer=writer, words=note["words"])


def _choose(
    scores_BL: np.ndarray, examples: Sequence[InputExample], *, labels: Sequence[str]
) -> list[Prediction]:
    best_B = scores_BL.argmax(-1)
    return [
        {
            # without any probability, a text other than a label was written
            "label": labels[idx] if row[idx] > 0 else ABSTAINED,
            "confidence": float(row[idx]),
            "scores": _name(labels, row),
        }
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


def _read_vectors(vectors_BD: np.ndarray, examples: Sequence[InputExample]) -> list[Prediction]:
    return [{"embedding": row.tolist()} for row in vectors_BD]


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
    key = SENTENCES if SENTENCES in examples[0].tokens else "tokens"
    tokens = [example.tokens[key] for example in examples]
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
        item: Prediction = {key: words, "tags": tags, "confidence": row.tolist()}
        if scheme is not None:
            # the one token of a text without words stands nowhere
            item["entities"] = [] if words == [EMPTY_TOKEN] else find_entities(words, tags)
        found.append(item)
    return found


def _write(
    states_BTD: np.ndarray,
    examples: Sequence[InputExample],
    *,
    writer: RuntimeWriter,
    words: Sequence[str],
) -> list[Prediction]:
    number = {word: place for place, word in enumerate(words)}
    tokens = [example.tokens["tokens"] for example in examples]
    found = writer.write(states_BTD, [number_copies(row, number) for row in tokens])
    items = zip(found.choices.tolist(), found.log_prob.tolist(), tokens, strict=True)
    return [
        {"text": write_words(ids, words, row), "confidence": float(np.exp(log_prob))}
        for ids, log_prob, row in items
    ]


def _write_tree(
    states_BTD: np.ndarray,
    examples: Sequence[InputExample],
    *,
    writer: RuntimeWriter,
    labels: Sequence[str],
) -> list[Prediction]:
    tokens = [example.tokens["tokens"] for example in examples]
    first = OPEN + len(labels)
    found = writer.write(states_BTD, [range(first, first + len(row)) for row in tokens])
    items = zip(found.choices.tolist(), found.log_prob.tolist(), tokens, strict=True)
    return [
        {
            "tree": write_tree([action for action in ids if action >= 0], labels, row),
            "confidence": float(np.exp(log_prob)),
        }
        for ids, log_prob, row in items
    ]


def _name(labels: Sequence[str], row: np.ndarray) -> dict[str, float]:
    return dict(zip(labels, row.tolist(), strict=True))


def find_entities(words: Sequence[str], tags: Sequence[str]) -> list[dict[str, Any]]:
    """Return type, text, first and last token of the entities of `find_spans`."""
    return [
        {"type": kind, "first": start, "last": end - 1, "text": " ".join(words[start:end])}
        for start, end, kind in find_spans(tags)
    ]


def find_answers(
    scores_BS2: np.ndarray,
    examples: Sequence[InputExample],
    *,
    locate: Callable[[str], list[Offsets]],
    max_tokens: int,
    threshold: float | None,
) -> list[dict[str, Any]]:
    """Return each answer with its first and last token and its probability.

    `threshold`: an empty answer is given if its log-probability exceeds the best span's by more;
    None if every question has an answer.

    Raises:
        ExampleError: a passage has no words.
    """
    found = []
    for scores_S2, example in zip(scores_BS2, examples, strict=True):
        passage, tokens = example.texts[PASSAGE], example.tokens[TOKENS]
        if tokens == [EMPTY_TOKEN] != [passage]:
            raise ExampleError(example.place, "found a passage without words, expected some.")
        shift = int(threshold is not None)
        log_S2 = _normalise(scores_S2[: shift + len(tokens)].astype(np.float64))
        first, last, score = find_best_span(log_S2[shift:, 0], log_S2[shift:, 1], max_tokens)
        item = {"answer": "", "first": first, "last": last, "confidence": float(np.exp(score))}
        none = float(log_S2[0].sum())
        if threshold is not None and none - score > threshold:
            item |= {"first": None, "last": None, "confidence": float(np.exp(none))}
        else:
            places = _find_places(passage, tokens, locate)
            item["answer"] = passage[places[first].start : places[last].end]
        found.append(item)
    return found


def find_best_span(
    start_T: np.ndarray, end_T: np.ndarray, max_tokens: int
) -> tuple[int, int, float]:
    """Return the pair i <= j < i + max_tokens with the highest start_i + end_j, and that sum.

    Ties go to the first i, then to the first j.
    """
    width = min(max_tokens, len(start_T))
    padded = np.concatenate([end_T, np.full(width - 1, -np.inf)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, width)
    more_T = windows.argmax(-1)
    score_T = start_T + np.take_along_axis(windows, more_T[:, None], -1)[:, 0]
    first = int(score_T.argmax())
    return first, first + int(more_T[first]), float(score_T[first])


def _normalise(scores_S2: np.ndarray) -> np.ndarray:
    shifted = scores_S2 - scores_S2.max(0)
    log_S2: np.ndarray = shifted - np.log(np.exp(shifted).sum(0))
    return log_S2


def _find_places(
    passage: str, tokens: Sequence[str], locate: Callable[[str], list[Offsets]]
) -> list[Offsets]:
    """Return the tokens' offsets; given tokens have one space between them."""
    places = locate(passage)
    if [passage[place.start : place.end] for place in places] == list(tokens):
        return places
    ends = np.cumsum([len(token) + 1 for token in tokens]) - 1
    return [
        Offsets(int(end) - len(token), int(end)) for token, end in zip(tokens, ends, strict=True)
    ]


class Span(NamedTuple):
    """An entity from token `start` to before `end`, of type `label`, such as "LOC"."""

    start: int
    end: int
    label: str


def find_spans(tags: Sequence[str]) -> list[Span]:
    """Return the entities of predicted tags, which may break the rules of BIO and BIOES.

    An entity begins with B- or S-, or if the type changes, and ends with E- or S- or if the type
    changes.
    """
    spans: list[Span] = []
    start, label = 0, ""
    for index, tag in enumerate([*tags, "O"]):
        prefix, _, kind = tag.partition("-")
        if label and (prefix in ("B", "S") or kind != label):
            spans.append(Span(start, index, label))
            label = ""
        if kind and not label:
            start, label = index, kind
        if prefix in ("E", "S"):
            spans.append(Span(start, index + 1, label))
            label = ""
    return spans
