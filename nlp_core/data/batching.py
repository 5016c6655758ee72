"""Ragged columns, and the order in which their examples come in batches."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Ragged:
    """Rows of different lengths, flat.

    Attributes:
        values: all rows one behind the other, [total].
        offsets: where each row begins, and the end, [N + 1].
    """

    values: np.ndarray
    offsets: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """Length of each row, [N]."""
        return np.diff(self.offsets)

    def take(self, rows: np.ndarray, padding: int = 0) -> np.ndarray:
        """Return some rows padded to the longest of them, [B, T]."""
        lengths = self.lengths[rows]
        steps = np.arange(max(int(lengths.max()), 1))
        inside = steps < lengths[:, None]
        places = np.where(inside, self.offsets[rows][:, None] + steps, 0)
        return np.where(inside, self.values[places], padding)

    def mask(self, rows: np.ndarray) -> np.ndarray:
        """Return where `take` gives real values, [B, T] bool."""
        lengths = self.lengths[rows]
        mask: np.ndarray = np.arange(max(int(lengths.max()), 1)) < lengths[:, None]
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
        """Length of each row, [N]."""
        return self.sizes

    def take(self, rows: np.ndarray, padding: int = 0) -> np.ndarray:
        """Return some rows padded to the longest of them, [B, T]."""
        mask = self.mask(rows)
        taken: np.ndarray = np.full(mask.shape, padding, dtype=self.values.dtype)
        places = self.offsets[rows][:, None] + np.arange(mask.shape[1])
        taken[mask] = self.values[self.numbers[places[mask]]]
        return taken


def order_training_batches(
    lengths: np.ndarray, *, batch_size: int, bucket_batches: int, seed: int, epoch: int
) -> list[np.ndarray]:
    """Return the batches of an epoch, each an array of row numbers.

    All rows are shuffled; pools of `bucket_batches` batches are sorted by length, so that a batch
    needs little padding; then the batches are shuffled. The order depends on seed and epoch alone,
    so a run resumes at any batch without replaying the ones before.

    Args:
        lengths: tokens of each example, [N].
        batch_size: examples a batch; the last one may be smaller.
        bucket_batches: batches a pool; 0 leaves the plain shuffle.
        seed: of the run.
        epoch: from 1.
    """
    generator = np.random.default_rng([seed, epoch])
    order = generator.permutation(len(lengths))
    if bucket_batches:
        pool = batch_size * bucket_batches
        pools = [order[start : start + pool] for start in range(0, len(order), pool)]
        pools = [rows[np.argsort(lengths[rows], kind="stable")] for rows in pools]
        batches = [batch for rows in pools for batch in _cut(rows, batch_size)]
        generator.shuffle(batches)
        return batches
    return list(_cut(order, batch_size))


def order_training_groups(
    group: np.ndarray,
    lengths: np.ndarray,
    *,
    batch_size: int,
    bucket_batches: int,
    seed: int,
    epoch: int,
) -> list[np.ndarray]:
    """Return the batches of an epoch, each of whole groups.

    The groups are ordered as `order_training_batches` orders examples, a group being as long as
    its longest example. Each brings its rows in their order, so all epochs have as many batches.

    Args:
        group: group number of each example, [N]; equal numbers need not be neighbours.
        lengths: tokens of each example, [N].
        batch_size: groups a batch; the last one may be smaller.
        bucket_batches: batches a pool; 0 leaves the plain shuffle.
        seed: of the run.
        epoch: from 1.
    """
    _, place, counts = np.unique(group, return_inverse=True, return_counts=True)
    members = np.split(np.argsort(place, kind="stable"), np.cumsum(counts)[:-1])
    batches = order_training_batches(
        np.array([lengths[rows].max() for rows in members]),
        batch_size=batch_size,
        bucket_batches=bucket_batches,
        seed=seed,
        epoch=epoch,
    )
    return [np.concatenate([members[idx] for idx in batch]) for batch in batches]


def order_evaluation_batches(lengths: np.ndarray, *, batch_size: int) -> list[np.ndarray]:
    """Return batches of rows of like lengths, the shortest first."""
    return list(_cut(np.argsort(lengths, kind="stable"), batch_size))


def _cut(rows: np.ndarray, batch_size: int) -> Iterator[np.ndarray]:
    for start in range(0, len(rows), batch_size):
        yield rows[start : start + batch_size]
