"""Ragged columns, and the order of their rows in batches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from reglue_runtime.sizes import round_up


@dataclass(frozen=True)
class Ragged:
    """Rows of different lengths, flat.

    Attributes:
        values: all rows, concatenated, [total].
        offsets: start of each row, and the end, [N + 1].
        most: the width that padding to a multiple does not pass; None: any.
    """

    values: np.ndarray
    offsets: np.ndarray
    most: int | None = field(default=None, kw_only=True)

    @classmethod
    def join(
        cls,
        rows: Sequence[Sequence[int]],
        dtype: type[np.integer[Any]],
        *,
        most: int | None = None,
    ) -> "Ragged":
        parts = [np.zeros(0, dtype), *(np.array(row, dtype) for row in rows)]
        return cls(np.concatenate(parts), np.cumsum([0, *map(len, rows)]), most=most)

    @property
    def lengths(self) -> np.ndarray:
        """Length of each row, [N]."""
        return np.diff(self.offsets)

    def take(self, rows: np.ndarray, padding: int = 0, *, multiple: int = 1) -> np.ndarray:
        """Return some rows padded to the longest of them, or the next multiple, [B, T]."""
        places, inside = locate_rows(self.offsets, rows, multiple, self.most)
        return np.where(inside, self.values[places], padding)

    def mask(self, rows: np.ndarray, *, multiple: int = 1) -> np.ndarray:
        """Return where `take` has real values, [B, T] bool."""
        return _mask_lengths(self.lengths[rows], multiple, self.most)


def locate_rows(
    offsets: np.ndarray, rows: np.ndarray, multiple: int = 1, most: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of some rows among flat values, and where they are real, both [B, T]."""
    inside = _mask_lengths(np.diff(offsets)[rows], multiple, most)
    return np.where(inside, offsets[rows][:, None] + np.arange(inside.shape[1]), 0), inside


def list_places(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the places of the values of some rows among flat values, flat."""
    begins = np.repeat(starts - np.cumsum(sizes) + sizes, sizes)
    places: np.ndarray = begins + np.arange(len(begins))
    return places


def _mask_lengths(lengths: np.ndarray, multiple: int, most: int | None) -> np.ndarray:
    width = round_up(max(int(lengths.max()), 1), (multiple,), most)
    mask: np.ndarray = np.arange(width) < lengths[:, None]
    return mask


@dataclass(frozen=True)
class LookedUp(Ragged):
    """Rows of numbers, flat, each of which stands for a value.

    Attributes:
        values: what each number stands for, [U].
        offsets: where each row begins, [N].
        sizes: length of each row, [N].
        numbers: flat, in memory or in a mapped file, [total].
    """

    sizes: np.ndarray
    numbers: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        return self.sizes

    def take(self, rows: np.ndarray, padding: int = 0, *, multiple: int = 1) -> np.ndarray:
        mask = self.mask(rows, multiple=multiple)
        taken: np.ndarray = np.full(mask.shape, padding, dtype=self.values.dtype)
        places = self.offsets[rows][:, None] + np.arange(mask.shape[1])
        taken[mask] = self.values[self.numbers[places[mask]]]
        return taken


def order_training_batches(
    lengths: np.ndarray,
    *,
    batch_size: int,
    bucket_batches: int,
    seed: int,
    epoch: int,
    most_tokens: int | None = None,
    multiple: int = 1,
    sizes: np.ndarray | None = None,
    buckets: Sequence[float] | None = None,
) -> list[np.ndarray]:
    """Return the batches of an epoch, each an array of row numbers.

    All rows are shuffled; pools of `bucket_batches` batches (0: none) are sorted by length, so that
    a batch needs little padding; then the batches are shuffled. The order depends only on seed and
    epoch (from 1), so a run resumes at any batch.

    Args:
        most_tokens: of a batch, padding included, unless one row has more; None: no limit.
        multiple: of tokens that a batch is padded to.
        sizes: how many examples of its length a row stands for; None: one each.
        buckets: relative widths of ranges of lengths, from one of which a batch is; None: pools.
    """
    generator = np.random.default_rng([seed, epoch])
    order = generator.permutation(len(lengths))
    sizes = np.ones_like(lengths) if sizes is None else sizes

    def cut(rows: np.ndarray) -> Iterator[np.ndarray]:
        if most_tokens is None:
            return _cut(rows, batch_size)
        widths = -(-lengths // multiple) * multiple
        return _cut_by_tokens(rows, widths, sizes, batch_size, most_tokens)

    batches: list[np.ndarray] = []
    if buckets is not None:
        number = number_buckets(lengths, buckets)
        for idx in range(len(buckets)):
            batches += cut(order[number[order] == idx])
    elif not bucket_batches:
        return list(cut(order))
    else:
        for pool in _cut(order, batch_size * bucket_batches):
            batches += cut(pool[np.argsort(lengths[pool], kind="stable")])
    generator.shuffle(batches)
    return batches


def number_buckets(lengths: np.ndarray, widths: Sequence[float]) -> np.ndarray:
    """Return the bucket of each length, from 0 for the shortest, [N]."""
    ends = np.cumsum(widths)
    low, high = lengths.min(), lengths.max()
    bounds = low + (high - low + 1) * ends / ends[-1]
    number: np.ndarray = np.searchsorted(bounds[:-1], lengths, side="right")
    return number


def split_groups(group: np.ndarray) -> list[np.ndarray]:
    """Return the rows of each group, in the order of the groups' numbers."""
    _, place, counts = np.unique(group, return_inverse=True, return_counts=True)
    return np.split(np.argsort(place, kind="stable"), np.cumsum(counts)[:-1])


def order_training_groups(
    group: np.ndarray,
    lengths: np.ndarray,
    *,
    batch_size: int,
    bucket_batches: int,
    seed: int,
    epoch: int,
    most_tokens: int | None = None,
    multiple: int = 1,
    buckets: Sequence[float] | None = None,
) -> list[np.ndarray]:
    """Return the batches of an epoch, each of `batch_size` whole groups.

    The groups are ordered like examples in `order_training_batches`, with the length of their
    longest example. Rows with equal numbers in `group` [N] need not be neighbors.
    """
    members = split_groups(group)
    batches = order_training_batches(
        np.array([lengths[rows].max() for rows in members]),
        batch_size=batch_size,
        bucket_batches=bucket_batches,
        seed=seed,
        epoch=epoch,
        most_tokens=most_tokens,
        multiple=multiple,
        sizes=np.array([len(rows) for rows in members]),
        buckets=buckets,
    )
    return [np.concatenate([members[idx] for idx in batch]) for batch in batches]


def draw_bootstrap(size: int, *, seed: int, stream: int = 0) -> np.ndarray:
    """Return `size` of the numbers below `size`, drawn with replacement, in rising order.

    On average 63 % of the numbers are drawn, some of them several times.

    Args:
        stream: separates the draws of several tasks.

    Source: Breiman 1996 (bagging predictors).
    """
    # the other generators of a seed and an epoch count epochs from 1
    generator = np.random.default_rng([seed, 0, stream, 1])
    drawn: np.ndarray = np.sort(generator.integers(size, size=size))
    return drawn


def order_evaluation_batches(lengths: np.ndarray, *, batch_size: int) -> list[np.ndarray]:
    """Return batches of rows of similar length, the shortest first."""
    return list(_cut(np.argsort(lengths, kind="stable"), batch_size))


def _cut(rows: np.ndarray, batch_size: int) -> Iterator[np.ndarray]:
    for start in range(0, len(rows), batch_size):
        yield rows[start : start + batch_size]


def _cut_by_tokens(
    rows: np.ndarray, lengths: np.ndarray, sizes: np.ndarray, most_rows: int, most_tokens: int
) -> Iterator[np.ndarray]:
    start = longest = number = 0
    for idx, row in enumerate(rows):
        wider, more = max(longest, int(lengths[row])), number + int(sizes[row])
        if idx > start and (wider * more > most_tokens or idx - start == most_rows):
            yield rows[start:idx]
            start, wider, more = idx, int(lengths[row]), int(sizes[row])
        longest, number = wider, more
    if start < len(rows):
        yield rows[start:]
