"""Random changes to texts: additional unlabeled examples for a teacher to label.

In each copy of a text some tokens are masked and others replaced; then some copies are cut to a few
tokens. The meaning may change, so a copy has only the teacher's label.

Source: Tang et al. 2019 (distilling task-specific knowledge from BERT into simple neural networks),
section 3.3. They replace a token by one with the same part of speech; we by one that follows the
same token elsewhere in the split, which needs no tagger.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nlp_core.config.recipe import AlterationConfig
from nlp_core.data.split_column import RawText, TextColumn
from nlp_core.data.task import Split
from nlp_core.errors import DataError

MASK = "[MASK]"
LONGEST_CUT = 5
TEXTS = {"tokens", "tokens_a", "tokens_b"}

Rows = list[list[str]]


def alter_split(split: Split, config: AlterationConfig) -> Split:
    """Return altered copies of the texts of a split, without labels.

    Empty copies and duplicates of a text or copy are left out. A raw text becomes its tokens,
    joined by spaces.

    Raises:
        DataError: the split has columns other than texts, such as one value per token.
    """
    others = sorted({*split.texts, *split.numbers} - TEXTS)
    if others or split.passages is not None:
        raise DataError(
            f"split {split.name}: found {others[0] if others else 'answers in passages'}, expected "
            "only texts; a teacher with an alteration cannot label it."
        )
    rng = np.random.default_rng(config.seed)
    names = sorted(split.texts)
    written = list(zip(*(split.texts[name].list_rows() for name in names), strict=True))
    seen = {tuple(map(tuple, row)) for row in written}
    kept: list[tuple[list[str], ...]] = []
    for _ in range(config.copies):
        altered = [_alter_column(split.texts[name], config, rng) for name in names]
        for row in zip(*altered, strict=True):
            key = tuple(map(tuple, row))
            if all(row) and key not in seen:
                seen.add(key)
                kept.append(row)
    texts = {name: [row[idx] for row in kept] for idx, name in enumerate(names)}
    return replace(
        split,
        ids=np.arange(len(kept)),
        texts={name: _build_column(rows) for name, rows in texts.items()},
        targets={name: [None] * len(kept) for name in split.targets},
        group=None,
        raw=None if split.raw is None else _join_raw([*texts.values()]),
    )


def _alter_column(column: TextColumn, config: AlterationConfig, rng: np.random.Generator) -> Rows:
    before = _find_tokens_before(column)
    followers: dict[str, list[str]] = {}
    for previous, token in zip(before, column.tokens, strict=True):
        followers.setdefault(previous, []).append(token)
    drawn = rng.random(len(column.tokens))
    chosen = rng.random(len(column.tokens))
    tokens = column.tokens.copy()
    for place in np.flatnonzero(drawn < config.mask_prob + config.replace_prob).tolist():
        if drawn[place] < config.mask_prob:
            tokens[place] = MASK
        else:
            found = followers[before[place]]
            tokens[place] = found[int(chosen[place] * len(found))]
    rows = TextColumn.build(tokens, column.offsets).list_rows()
    cuts = np.flatnonzero(rng.random(len(rows)) < config.cut_prob).tolist()
    sizes = rng.integers(1, LONGEST_CUT + 1, len(cuts)).tolist()
    begins = rng.random(len(cuts)).tolist()
    for row, size, begin in zip(cuts, sizes, begins, strict=True):
        first = int(begin * max(len(rows[row]) - size + 1, 1))
        rows[row] = rows[row][first : first + size]
    return rows


def _find_tokens_before(column: TextColumn) -> list[str]:
    """Return the token before each one in its text, "" for the first one."""
    before = ["", *column.tokens[:-1]] if column.tokens else []
    for begin in column.offsets[:-1][column.lengths > 0].tolist():
        before[begin] = ""
    return before


def _build_column(rows: Sequence[list[str]]) -> TextColumn:
    offsets = np.cumsum([0, *map(len, rows)])
    return TextColumn.build([token for row in rows for token in row], offsets)


def _join_raw(columns: Sequence[Rows]) -> RawText:
    first, *second = ([" ".join(row) for row in rows] for rows in columns)
    return RawText(first, second[0] if second else None)
