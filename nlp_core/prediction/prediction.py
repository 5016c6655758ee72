"""One input of a trained model, and what it predicts for it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from nlp_core.config.column import SYMBOLS
from nlp_core.config.user_data import DataConfig
from nlp_core.data.readers.example import Passage, Question
from nlp_core.data.readers.user import UserExample, cut_texts, join_sentences, locate_text
from nlp_core.data.split_column import NumberColumn, RawText, TextColumn
from nlp_core.data.task import Split
from nlp_core.data.tokenization import LOCATORS
from nlp_core.errors import ConfigError, plural
from nlp_core.heads.tagging import CRFTaggingHead, TaggingHead
from nlp_core.models.batch import WRITTEN, EncodedSplit, find_label
from nlp_core.models.graph import GraphModel, HeadScores
from reglue_runtime.decoding import ABSTAINED, Span, find_spans
from reglue_runtime.text import EMPTY_TOKEN, TURN, join_turns, split_turns

Input: TypeAlias = str | Sequence[str]
"""A text; two texts for a pair; a text or its tokens where each token gets a tag; a turn of a
dialogue, or it and the list of the earlier turns; the sentences of a document."""


class Prediction(NamedTuple):
    """What a model predicts for one input.

    Attributes:
        prediction: the label, the labels, the number, a tag for each token, the symbols of a tree,
            or the text of an answer, empty where there is none.
        confidence: probability of the prediction, or of each label or tag; None for a number.
        probability: of each label, in the order of `Predictor.labels`: [L], or [T, L] for tags;
            None for a number.
        tags: a tag for each token where a model predicts a label and tags.
        entities: of a model trained on entities by offsets. Without a label, each has the least
            confidence of its tokens.
    """

    prediction: str | float | list[str]
    confidence: float | list[float] | None
    probability: np.ndarray | None
    tags: list[str] | None = None
    entities: list[Span] | None = None


def abstain(item: Prediction, least: float, out_of_scope: str | None = None) -> Prediction:
    """Return a prediction; below the least confidence it is the label out of scope, or empty."""
    is_kept = cast(float, item.confidence) >= least
    return item if is_kept else item._replace(prediction=out_of_scope or ABSTAINED)


def cut_entities(prediction: Prediction, example: UserExample) -> Prediction:
    places = example.offsets
    if places is None:  # tokens were given
        return prediction
    tags = cast(list[str], prediction.prediction if prediction.tags is None else prediction.tags)
    # the one token of a text without words stands nowhere
    spans = find_spans(tags) if places else []
    entities = [Span(places[start].start, places[end - 1].end, kind) for start, end, kind in spans]
    if prediction.tags is not None:
        return prediction._replace(entities=entities)
    chances = cast(list[float], prediction.confidence)
    least = [min(chances[start:end]) for start, end, _ in spans]
    return prediction._replace(entities=entities, confidence=least)


def choose_labels(
    answer: np.ndarray, chances: np.ndarray, size: int | None, labels: list[str]
) -> Prediction:
    """Return the label of an answer [], the labels chosen in [L], or the tags of `size` tokens."""
    if size is not None:
        ids, chances = answer[:size], chances[:size]
        confidence = chances[np.arange(size), ids].tolist()
    elif answer.ndim:
        ids = np.flatnonzero(answer)
        confidence = chances[ids].tolist()
    else:
        return Prediction(find_label(labels, int(answer)), float(chances.max()), chances)
    return Prediction([labels[idx] for idx in ids], confidence, chances)


def name_answers(
    model: GraphModel,
    scores: Mapping[str, HeadScores],
    encoded: EncodedSplit,
    rows: NDArray[np.int64],
    targets: Mapping[str, list[str]],
) -> dict[str, list[Prediction]]:
    """Return by target what the scores of the heads predict for some rows of a split.

    Args:
        targets: by target all labels.
    """
    found: dict[str, list[Prediction]] = {}
    for name, (score, mask) in scores.items():
        head = model.head(name)
        decoded, labels = head.decode(score, mask), targets[head.target]
        ids, chances = decoded.prediction.numpy(), decoded.probability
        sizes: list[int | None] = [None] * len(ids)
        if isinstance(head, TaggingHead | CRFTaggingHead):
            assert mask is not None, name
            chances, sizes = head.marginals(score, mask), mask.sum(1).tolist()
        if chances is None:
            found[head.target] = [Prediction(value, None, None) for value in ids.tolist()]
        elif head.target in WRITTEN:
            texts = [
                encoded.write_answer(head.target, row, answer, labels)
                for row, answer in zip(rows.tolist(), ids.tolist(), strict=True)
            ]
            # the last probability of an answer is that of none
            found[head.target] = [
                Prediction(text, float(odds[0 if text else -1]), odds)
                for text, odds in zip(texts, chances.numpy(), strict=True)
            ]
        else:
            items = zip(ids, chances.numpy(), sizes, strict=True)
            found[head.target] = [choose_labels(*item, labels) for item in items]
    return found


def read_input(
    item: Input, idx: int, data: DataConfig, tokenize: Callable[[str], list[str]]
) -> UserExample:
    """Return the example of an input; a wrong number or type of texts is a ConfigError."""
    item = _take_texts(item, idx, data)
    texts = [item] if isinstance(item, str) else list(item)
    if data.has_spans and isinstance(item, str):
        return locate_text([idx], item, data)
    if data.kind.has_history:
        return _read_turn(item, idx, tokenize)
    if data.kind.has_sentences:
        sentences = split_turns(item) if isinstance(item, str) else item
        if not sentences:
            raise ConfigError(f"input {idx + 1}: found no sentence, expected one at least.")
        return join_sentences([idx], [*map(tokenize, sentences)])
    if data.kind.reads_tokens:
        tokens = tokenize(item) if isinstance(item, str) else texts
        return UserExample([idx], [tokens or [EMPTY_TOKEN]], {})
    names = data.input_columns
    if len(texts) != len(names):
        raise ConfigError(
            f"input {idx + 1}: found {plural(len(texts), 'text')}, expected {len(names)}: "
            f"{' and '.join(names)}."
        )
    if data.kind.has_passages:
        return UserExample([idx], [], {}, raw=texts)
    return cut_texts([idx], texts, data, tokenize)


def _take_texts(item: object, idx: int, data: DataConfig) -> Input:
    """Return what a caller of Python gave, which is a text or a list of texts."""
    if isinstance(item, str):
        return item
    is_list = isinstance(item, Iterable) and not isinstance(item, bytes | Mapping)
    parts = list(cast(Iterable[str], item)) if is_list else [item]
    texts: list[object] = [*parts]
    if data.kind.has_history and len(parts) > 1 and isinstance(parts[1], list | tuple):
        texts[1:2] = parts[1]  # the earlier turns
    if odd := [text for text in texts if not isinstance(text, str)]:
        name = type(odd[0]).__name__
        raise ConfigError(
            f"input {idx + 1}: found {odd[0]!r:.80} of the type {name}, expected a text or a list "
            "of texts; leave out what has no text."
        )
    return cast(list[str], parts)


def _read_turn(item: Input, idx: int, tokenize: Callable[[str], list[str]]) -> UserExample:
    """Return the example of a turn, or of a turn and the list of the turns before it."""
    text, *more = [item] if isinstance(item, str) else item or [""]
    if len(more) > 1:
        raise ConfigError(
            f"input {idx + 1}: found {len(more) + 1} items, expected a turn and the list of the "
            "turns before it."
        )
    turns = more[0] if more else []
    before = turns.split(TURN) if isinstance(turns, str) else turns
    filled = [turn for turn in before if turn.strip()]
    return UserExample([idx], [tokenize(text), join_turns([*map(tokenize, filled)])], {})


def read_question(example: UserExample, data: DataConfig) -> Question:
    """Return the question of an example; a passage without words is a ConfigError."""
    (number,), (text, context) = example.lines, example.raw
    stretches = np.array(LOCATORS.get(data.tokens)(context), dtype=np.int32)
    if not len(stretches):
        raise ConfigError(f"input {number + 1}: found a context without words.")
    starts, ends = stretches.T
    return Question(str(number), text, Passage(1, number + 1, context, starts, ends), None)


def build_split(examples: Sequence[UserExample], data: DataConfig, targets: Iterable[str]) -> Split:
    size = len(examples)
    words = {
        name: [example.texts[idx] for example in examples]
        for idx, name in enumerate(data.text_names)
    }
    numbers = {}
    for name in {**data.extras, **examples[0].extras}:
        rows = [example.extras[name] for example in examples]
        if name.startswith(SYMBOLS):
            words[name] = rows
        else:
            numbers[name] = NumberColumn.build(name, rows)
    columns = {name: TextColumn.join(rows) for name, rows in words.items()}
    unknown = {name: [None] * size for name in targets}
    raw = [[example.raw[idx] for example in examples] for idx in range(len(examples[0].raw))]
    whole = RawText(raw[0], raw[1] if raw[1:] else None) if raw else None
    return Split("input", np.arange(size), columns, unknown, None, numbers, raw=whole)
