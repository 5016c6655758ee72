"""Concatenate a labelled split and further texts."""

from dataclasses import replace
from typing import Any

import numpy as np

from nlp_core.data.split_column import NumberColumn, RawText, TextColumn
from nlp_core.data.task import Answers, Split
from nlp_core.errors import DataError
from nlp_core.kinds import TAGS


def join_texts(split: Split, more: Split) -> Split:
    """Return a split followed by the texts of another one.

    The further texts get a placeholder label, which nothing may learn from.

    Raises:
        DataError: the further texts lack a column.
    """
    missing = sorted({*split.texts, *split.numbers} - {*more.texts, *more.numbers})
    if missing or split.passages is not None:
        raise DataError(
            f"split {more.name}: found the columns {sorted([*more.texts, *more.numbers])}, "
            f"expected {missing[0] if missing else 'no answer spans'}; its texts cannot be joined "
            f"to the split {split.name}."
        )
    group = None
    if split.group is not None:
        own = np.arange(len(more)) if more.group is None else more.group
        group = np.concatenate([split.group, own + int(split.group.max()) + 1])
    return replace(
        split,
        ids=np.concatenate([split.ids, more.ids]),
        texts={name: _join_tokens(text, more.texts[name]) for name, text in split.texts.items()},
        targets={name: [*rows, *_fill(name, rows, more)] for name, rows in split.targets.items()},
        group=group,
        numbers={
            name: _join_numbers(item, more.numbers[name]) for name, item in split.numbers.items()
        },
        raw=_join_raw(split.raw, more.raw),
    )


def strip_targets(split: Split, targets: list[str]) -> Split:
    return replace(split, targets={name: [None] * len(split) for name in targets})


def _fill(target: str, rows: Answers, more: Split) -> list[Any]:
    if target != TAGS:
        return [rows[0]] * len(more)
    return [[rows[0][0]] * size for size in more.texts["tokens"].lengths.tolist()]


def _join_offsets(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    joined: np.ndarray = np.concatenate([first, second[1:] + first[-1]])
    return joined


def _join_tokens(first: TextColumn, second: TextColumn) -> TextColumn:
    offsets = _join_offsets(first.offsets, second.offsets)
    return TextColumn.build([*first.tokens, *second.tokens], offsets)


def _join_numbers(first: NumberColumn, second: NumberColumn) -> NumberColumn:
    offsets = None
    if first.offsets is not None and second.offsets is not None:
        offsets = _join_offsets(first.offsets, second.offsets)
    return NumberColumn(np.concatenate([first.values, second.values]), offsets)


def _join_raw(first: RawText | None, second: RawText | None) -> RawText | None:
    if first is None or second is None:
        return None
    pairs = first.second is not None and second.second is not None
    return RawText(
        [*first.first, *second.first],
        [*(first.second or []), *(second.second or [])] if pairs else None,
    )
