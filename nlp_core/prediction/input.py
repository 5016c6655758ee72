"""Inputs of a trained model, given as texts instead of a file: as examples, and as a split."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import TypeAlias

import numpy as np

from nlp_core.config.column import SYMBOLS
from nlp_core.config.user_data import DataConfig
from nlp_core.data.readers.example import Passage, Question
from nlp_core.data.readers.user import UserExample, cut_texts, locate_text
from nlp_core.data.split_column import NumberColumn, RawText, TextColumn
from nlp_core.data.task import Split
from nlp_core.data.tokenization import LOCATORS
from nlp_core.errors import ConfigError
from reglue_runtime.text import EMPTY_TOKEN

Input: TypeAlias = str | Sequence[str]
"""A text; two texts for a pair; a text or its tokens where each token gets a tag."""
Tokenize: TypeAlias = Callable[[str], list[str]]


def read_inputs(inputs: Sequence[Input], data: DataConfig, tokenize: Tokenize) -> list[UserExample]:
    """Return examples of inputs.

    Raises:
        ConfigError: the inputs are no list, or one has not as many texts as the model reads.
    """
    if isinstance(inputs, str):
        raise ConfigError("predict: found a text, expected a list of inputs: [text].")
    return [_read(item, idx, data, tokenize) for idx, item in enumerate(inputs)]


def _read(item: Input, idx: int, data: DataConfig, tokenize: Tokenize) -> UserExample:
    texts = [item] if isinstance(item, str) else list(item)
    if data.has_spans and isinstance(item, str):
        return locate_text([idx], item, data)
    if data.kind.has_tags:
        tokens = tokenize(item) if isinstance(item, str) else texts
        return UserExample([idx], [tokens or [EMPTY_TOKEN]], {})
    names = data.input_columns
    if len(texts) != len(names):
        raise ConfigError(
            f"input {idx + 1}: found {len(texts)} texts, expected {len(names)}: "
            f"{' and '.join(names)}."
        )
    if data.kind.has_passages:
        return UserExample([idx], [], {}, raw=texts)
    return cut_texts([idx], texts, data, tokenize)


def read_question(example: UserExample, data: DataConfig) -> Question:
    """Return the question of an example and the passage that has the answer.

    Raises:
        ConfigError: the passage has no words.
    """
    (number,), (text, context) = example.lines, example.raw
    stretches = np.array(LOCATORS.get(data.tokens)(context), dtype=np.int32)
    if not len(stretches):
        raise ConfigError(f"input {number + 1}: found a context without words.")
    starts, ends = stretches.T
    return Question(str(number), text, Passage(1, number + 1, context, starts, ends), None)


def build_split(examples: Sequence[UserExample], data: DataConfig, targets: Iterable[str]) -> Split:
    """Return examples without labels as a split."""
    size = len(examples)
    texts = {
        name: [example.texts[idx] for example in examples]
        for idx, name in enumerate(data.text_names)
    }
    extras = {name: [example.extras[name] for example in examples] for name in data.extras}
    symbols = {name: rows for name, rows in extras.items() if name.startswith(SYMBOLS)}
    columns = {
        name: TextColumn.build([*chain.from_iterable(rows)], np.cumsum([0, *map(len, rows)]))
        for name, rows in (texts | symbols).items()
    }
    numbers = {
        name: NumberColumn.build(name, rows) for name, rows in extras.items() if name not in symbols
    }
    unknown = {name: [None] * size for name in targets}
    raw = [[example.raw[idx] for example in examples] for idx in range(len(examples[0].raw))]
    whole = RawText(raw[0], raw[1] if raw[1:] else None) if raw else None
    return Split("input", np.arange(size), columns, unknown, None, numbers, raw=whole)
