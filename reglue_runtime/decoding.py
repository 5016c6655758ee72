"""From the graph's scores to predictions: one decoding for each kind of head.

In 64-bit floats where the heads are. Shape letters: B batch, T tokens, L labels; I the labels of
the token before; S positions: the tokens of a passage, after one for "no answer" if questions may
have none.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from reglue_runtime.example import LOCATORS, SENTENCES, InputExample
from reglue_runtime.pieces import PieceText
from reglue_runtime.text import Offsets
from reglue_runtime.tree import OPEN, write_tree
from reglue_runtime.tree_writing import TreeRules
from reglue_runtime.writing import RuntimeWriter, number_copies, write_words

Prediction: TypeAlias = dict[str, Any]  # Any: labels, scores, numbers
Decoding: TypeAlias = Callable[[np.ndarray, Sequence[InputExample]], list[Prediction]]
PASSAGE, TOKENS = "text_b", "tokens_b"
MARGIN = 1e-9
"""Far more than rounding may add to a difference of scores."""
MANY_LABELS = 32
"""From this many on it pays to skip labels that are on no best path."""


AUTO: Final = "auto"
"""The threshold that training chose."""
ABSTAINED = ""
"""The label of an example that is not answered."""


class CRF:
    """A linear-chain CRF, decoded in 64-bit floats as the head crf_tagging does."""

    def __init__(self, start_L: np.ndarray, end_L: np.ndarray, transition_IL: np.ndarray) -> None:
        self._start_L, self._end_L = start_L, end_L
        self._transition_IL = transition_IL
        self._transition_LI = np.ascontiguousarray(transition_IL.T)
        self._best_step_I = transition_IL.max(1)
        self._worst_step_I = transition_IL.min(1)
        self._start_odds_L = np.exp(start_L - start_L.max())
        self._end_odds_L = np.exp(end_L - end_L.max())
        self._odds_IL = np.exp(transition_IL - transition_IL.max())
        self._odds_LI = np.ascontiguousarray(self._odds_IL.T)

    @classmethod
    def read(cls, path: Path) -> "CRF":
        """Read a file of [L + 2, L]: start, end, and the transitions from each row's label."""
        found = np.load(path, allow_pickle=False).astype(np.float64)
        return cls(found[0], found[1], found[2:])

    def decode(
        self, scores_BTL: np.ndarray, sizes_B: np.ndarray
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return the best path of each sentence and the marginal probability of its labels.

        `sizes_B`: tokens of each sentence, at least 1.
        """
        emission_TBL = scores_BTL.transpose(1, 0, 2).astype(np.float64)
        odds_TBL = self._find_marginals(emission_TBL, sizes_B)
        paths = self._find_best_paths(emission_TBL, sizes_B)
        probs = [odds_TBL[np.arange(len(path)), row, path] for row, path in enumerate(paths)]
        return paths, probs

    def find_marginals(self, scores_BTL: np.ndarray, sizes_B: np.ndarray) -> np.ndarray:
        """Return the probability of each label at each token, [B, T, L]; any at padding."""
        found_TBL = self._find_marginals(scores_BTL.transpose(1, 0, 2).astype(np.float64), sizes_B)
        return found_TBL.transpose(1, 0, 2)

    def _find_best_paths(self, emission_TBL: np.ndarray, sizes_B: np.ndarray) -> list[np.ndarray]:
        """Return the Viterbi path of each sentence."""
        is_large = len(self._start_L) >= MANY_LABELS
        is_ragged = bool((sizes_B < len(emission_TBL)).any())
        score_BL = emission_TBL[0] + self._start_L
        scores = [score_BL]
        for idx, emission_BL in enumerate(emission_TBL[1:], start=1):
            kept = self._find_rivals(score_BL, sizes_B > idx) if is_large else slice(None)
            step_BIL = score_BL[:, kept, None] + self._transition_IL[kept]
            score_BL = step_BIL.max(1) + emission_BL
            scores.append(score_BL)
        if is_ragged:
            score_BL = np.stack(scores)[sizes_B - 1, np.arange(len(sizes_B))]
        label_B = (score_BL + self._end_L).argmax(-1)
        labels = [label_B]
        # the maximum is computed again along the path: cheaper than keeping all of them
        for idx in reversed(range(len(scores) - 1)):
            before_B = (scores[idx] + self._transition_LI[label_B]).argmax(-1)
            label_B = np.where(idx < sizes_B - 1, before_B, label_B) if is_ragged else before_B
            labels.append(label_B)
        path_BT = np.stack(labels[::-1], axis=1)
        return [path[:size] for path, size in zip(path_BT, sizes_B.tolist(), strict=True)]

    def _find_rivals(self, score_BL: np.ndarray, is_on_B: np.ndarray) -> np.ndarray:
        """Return the labels that a best path can continue from, in any unfinished sentence.

        A label whose best step is worse than another one's worst is on no best path; so the maximum
        over the rest is the maximum over all.
        """
        least_B = (score_BL + self._worst_step_I).max(-1) - MARGIN
        least_B[~is_on_B] = np.inf
        is_kept_BL = score_BL + self._best_step_I >= least_B[:, None]
        kept = np.flatnonzero(is_kept_BL.any(0))
        # nan scores of a graph that overflowed compare with nothing
        return kept if len(kept) else np.arange(len(self._start_L))

    def _find_marginals(self, emission_TBL: np.ndarray, sizes_B: np.ndarray) -> np.ndarray:
        """Return the probability of each label at each token, [T, B, L].

        Forward-backward in probabilities that are rescaled at each token.
        """
        weight_TBL = np.exp(emission_TBL - emission_TBL.max(-1, keepdims=True))
        before_BL = _scale(weight_TBL[0] * self._start_odds_L)
        forward = [before_BL]
        for weight_BL in weight_TBL[1:]:
            before_BL = _scale((before_BL @ self._odds_IL) * weight_BL)
            forward.append(before_BL)
        after_BL = np.broadcast_to(self._end_odds_L, before_BL.shape)
        backward = [after_BL]
        is_ragged = bool((sizes_B < len(weight_TBL)).any())
        for idx in range(len(weight_TBL) - 1, 0, -1):
            after_BL = _scale((after_BL * weight_TBL[idx]) @ self._odds_LI)
            if is_ragged:
                after_BL = np.where((idx < sizes_B)[:, None], after_BL, self._end_odds_L)
            backward.append(after_BL)
        return _scale(np.stack(forward) * np.stack(backward[::-1]))


def _scale(weight: np.ndarray) -> np.ndarray:
    scaled: np.ndarray = weight / weight.sum(-1, keepdims=True)
    return scaled


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
            item["entities"] = find_entities(words, tags)
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
    items = zip(found.ids.tolist(), found.log_prob.tolist(), tokens, strict=True)
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
    items = zip(found.ids.tolist(), found.log_prob.tolist(), tokens, strict=True)
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
    """
    found = []
    for scores_S2, example in zip(scores_BS2, examples, strict=True):
        passage, tokens = example.texts[PASSAGE], example.tokens[TOKENS]
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
