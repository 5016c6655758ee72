"""Augmentation: further training texts of a task, with altered copies.

A teacher labels them (`alter_split`), or they keep their labels (`augment_split`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nlp_core.config.augmentation import EdaConfig
from nlp_core.config.dataset import TRAIN
from nlp_core.config.recipe import RecipeConfig
from nlp_core.config.teaching import AlterationConfig
from nlp_core.data.split_column import RawText, TextColumn
from nlp_core.data.task import Split, Task, draw_share
from nlp_core.errors import DataError
from nlp_core.files import name_local
from nlp_core.kinds import GROUP, LABEL, LABELS

MASK = "[MASK]"
EDA_STREAM = 2
LONGEST_CUT = 5
TEXTS = {"tokens", "tokens_a", "tokens_b"}

Rows = list[list[str]]


def choose_train(train: Split, recipe: RecipeConfig, seed: int) -> Split:
    """Return what a seed trains on of a training split, with altered copies, if there are any."""
    if recipe.train_share:
        train = draw_share(train, recipe.train_share, seed)
    if isinstance(recipe.augmentation, EdaConfig):
        train = augment_split(train, recipe.augmentation, seed)
    return train


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
        texts={name: TextColumn.join(rows) for name, rows in texts.items()},
        targets={name: [None] * len(kept) for name in split.targets},
        group=None,
        raw=None if split.raw is None else _join_raw([*texts.values()]),
    )


def augment_split(split: Split, config: EdaConfig, seed: int) -> Split:
    """Return a split followed by altered copies of its texts, each with its label.

    Copies of a ranking's candidates are questions of their own. A raw text of a copy is its tokens,
    joined by spaces.

    Raises:
        DataError: the split has columns other than texts, or a target for each token.
    """
    others = sorted({*split.texts, *split.numbers} - TEXTS)
    targets = sorted({*split.targets} - {LABEL, LABELS})
    if others or targets or split.passages is not None:
        raise DataError(
            f"split {split.name}: found {(others or targets or ['answers in passages'])[0]}, "
            "expected only texts and labels; the augmentation eda cannot alter it."
        )
    rng = np.random.default_rng([seed, EDA_STREAM])
    names = sorted(split.texts)
    written = {name: split.texts[name].list_rows() for name in names}
    followers = {name: _list_followers(split.texts[name]) for name in names}
    chosen: list[int] = []
    texts = {name: [*rows] for name, rows in written.items()}
    for _ in range(config.copies):
        replaced = {
            name: _replace_tokens(split.texts[name], rng, replace_prob=config.replace_prob)
            for name in names
        }
        for row in range(len(split)):
            altered = {
                name: _alter_row(replaced[name][row], followers[name], config, rng)
                for name in names
            }
            if split.group is not None or any(
                altered[name] != written[name][row] for name in names
            ):
                chosen.append(row)
                for name in names:
                    texts[name].append(altered[name])
    rows = np.array([*range(len(split)), *chosen], dtype=np.int64)
    longer = split.subset(split.name, rows)
    group = longer.group
    if group is not None:
        copy = np.concatenate([np.zeros(len(split), int), np.arange(len(chosen)) // len(split) + 1])
        group = group + copy * (int(group.max()) + 1)
    raw = split.raw
    if raw is not None:
        copies = _join_raw([texts[name][len(split) :] for name in names])
        second = None if raw.second is None else [*raw.second, *(copies.second or [])]
        raw = RawText([*raw.first, *copies.first], second)
    columns = {name: TextColumn.join(found) for name, found in texts.items()}
    return replace(longer, ids=np.arange(len(rows)), texts=columns, group=group, raw=raw)


def _alter_row(
    row: list[str],
    followers: Mapping[str, list[str]],
    config: EdaConfig,
    rng: np.random.Generator,
) -> list[str]:
    """Return a text with some words inserted, swapped and deleted; it keeps one at least."""
    found: list[str] = []
    for token, drawn, place in zip(row, rng.random(len(row)), rng.random(len(row)), strict=True):
        found.append(token)
        known = followers.get(token)
        if known and drawn < config.insert_prob:
            found.append(known[int(place * len(known))])
    others = rng.integers(0, max(len(found), 1), len(found))
    for place in np.flatnonzero(rng.random(len(found)) < config.swap_prob).tolist():
        other = int(others[place])
        found[place], found[other] = found[other], found[place]
    is_kept = rng.random(len(found)) >= config.delete_prob
    if found and not is_kept.any():
        is_kept[int(rng.integers(len(found)))] = True
    return [token for token, kept in zip(found, is_kept.tolist(), strict=True) if kept]


def _list_followers(column: TextColumn) -> dict[str, list[str]]:
    """Return the tokens after each token, "" being the one before the first of a text."""
    followers: dict[str, list[str]] = {}
    for previous, token in zip(_find_tokens_before(column), column.tokens, strict=True):
        followers.setdefault(previous, []).append(token)
    return followers


def _replace_tokens(
    column: TextColumn,
    rng: np.random.Generator,
    *,
    replace_prob: float,
    mask_prob: float = 0.0,
) -> Rows:
    before, followers = _find_tokens_before(column), _list_followers(column)
    drawn = rng.random(len(column.tokens))
    chosen = rng.random(len(column.tokens))
    tokens = column.tokens.copy()
    for place in np.flatnonzero(drawn < mask_prob + replace_prob).tolist():
        if drawn[place] < mask_prob:
            tokens[place] = MASK
        else:
            found = followers[before[place]]
            tokens[place] = found[int(chosen[place] * len(found))]
    return TextColumn.build(tokens, column.offsets).list_rows()


def _alter_column(column: TextColumn, config: AlterationConfig, rng: np.random.Generator) -> Rows:
    rows = _replace_tokens(
        column, rng, replace_prob=config.replace_prob, mask_prob=config.mask_prob
    )
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


def _join_raw(columns: Sequence[Rows]) -> RawText:
    first, *second = ([" ".join(row) for row in rows] for rows in columns)
    return RawText(first, second[0] if second else None)


class Texts(NamedTuple):
    """The rows that a teacher labels: the training texts, then each sort of further ones.

    Attributes:
        begins: the first row of each sort.
    """

    table: pa.Table
    begins: list[int]


def read_texts(task: Task, *, further: str | None, alteration: AlterationConfig | None) -> Texts:
    """Read the training texts, those of a `further` split, and altered copies of the first."""
    table, begins = pq.ParquetFile(name_local(task.folder / f"{TRAIN}.parquet")).read(), [0]
    if further:
        begins.append(len(table))
        more = pq.ParquetFile(name_local(task.folder / f"{further}.parquet")).read()
        table = append_split(table, more, [*task.targets])
    if alteration:
        begins.append(len(table))
        altered = alter_split(task.read_split(TRAIN), alteration)
        table = append_altered(table, altered, task.kind.texts)
    return Texts(table, begins)


def append_split(table: pa.Table, more: pa.Table, targets: Sequence[str]) -> pa.Table:
    """Return a table followed by the rows of another split without the labels in `targets`."""
    names = [name for name in more.column_names if name not in targets]
    columns = {name: more.column(name).to_pylist() for name in names}
    if GROUP in columns:
        first = _count_groups(table)
        columns[GROUP] = [first + group for group in columns[GROUP]]
    return _append(table, columns, len(more))


def append_altered(table: pa.Table, altered: Split, texts: Sequence[str]) -> pa.Table:
    """Return a table followed by altered texts, each in a group of its own.

    `texts` are the columns of whole texts, if there are any.
    """
    rows = range(len(altered))
    columns: dict[str, Sequence[Any]] = {"id": rows}
    columns |= {name: column.list_rows() for name, column in altered.texts.items()}
    if altered.raw is not None:
        whole: list[Any] = [altered.raw.first, altered.raw.second]
        columns |= zip(texts, whole, strict=False)
    if GROUP in table.column_names:
        first = _count_groups(table)
        columns[GROUP] = [first + row for row in rows]
    return _append(table, columns, len(altered))


def _append(table: pa.Table, columns: Mapping[str, Sequence[Any]], num_rows: int) -> pa.Table:
    """Return a table followed by further rows, which are null in columns that are not given."""
    arrays = [
        pa.array(columns[field.name], field.type)
        if field.name in columns
        else pa.nulls(num_rows, field.type)
        for field in table.schema
    ]
    rows = pa.Table.from_arrays(arrays, schema=table.schema)
    return pa.concat_tables([table, rows]).combine_chunks()


def _count_groups(table: pa.Table) -> int:
    return max(table.column(GROUP).to_pylist(), default=-1) + 1
