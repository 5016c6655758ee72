"""The task of each step of an epoch: one batch, one task."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from nlp_core.config.recipe import (
    AnnealedMixing,
    MainRatioMixing,
    Mixing,
    SequentialMixing,
    TemperatureMixing,
    UniformMixing,
)

Batches = list[NDArray[np.int64]]


def order_tasks(
    mixing: Mixing, sizes: Mapping[str, int], *, seed: int, epoch: int, epochs: int
) -> list[str]:
    """Return the task of each step of an epoch; `sizes` are the batches of each training split.

    The order depends only on seed and epoch (from 1); every epoch has the same number of steps.
    """
    # the third number separates this stream from that of the order of examples
    generator = np.random.default_rng([seed, epoch, len(sizes)])
    if isinstance(mixing, MainRatioMixing):
        others = [task for task, size in sizes.items() if task != mixing.main for _ in range(size)]
        number = count_steps(mixing, sizes) - sizes[mixing.main]
        chosen = generator.permutation(len(others))[:number]
        steps = [mixing.main] * sizes[mixing.main] + [others[idx] for idx in chosen]
    else:
        counts = _share_steps(mixing, sizes, epoch, epochs)
        steps = [task for task, count in counts.items() for _ in range(count)]
    if isinstance(mixing, SequentialMixing):
        return steps
    return [steps[idx] for idx in generator.permutation(len(steps))]


def count_steps(mixing: Mixing | None, sizes: Mapping[str, int]) -> int:
    """Return the steps of an epoch; `mixing` is None for a single task."""
    total = sum(sizes.values())
    if not isinstance(mixing, MainRatioMixing):
        return total
    main = sizes[mixing.main]
    return main + min(round(mixing.ratio * main), total - main)


def draw_batches(
    order: Callable[[int], Batches], number: int, *, epoch: int, epochs: int
) -> Batches:
    """Return `number` batches of a task, from one or more passes over its split.

    Args:
        order: returns the batches of a pass, given its number from 1; no two passes are alike.
        epoch: from 1.
        epochs: of the run: a second pass within an epoch has a number after them all.
    """
    batches: Batches = []
    while len(batches) < number:
        batches += order(epoch)
        epoch += epochs
    return batches[:number]


def _share_steps(
    mixing: Mixing, sizes: Mapping[str, int], epoch: int, epochs: int
) -> dict[str, int]:
    """Return the steps of each task; they sum to the sizes, and each task has at least one."""
    if isinstance(mixing, UniformMixing):
        alpha = 0.0
    elif isinstance(mixing, TemperatureMixing):
        alpha = mixing.alpha
    elif isinstance(mixing, AnnealedMixing):
        alpha = 1 - (1 - mixing.last_alpha) * (epoch - 1) / max(epochs - 1, 1)
    else:
        return dict(sizes)
    weights = np.array(list(sizes.values()), dtype=np.float64) ** alpha
    total = sum(sizes.values())
    wanted = 1 + weights / weights.sum() * (total - len(sizes))
    counts = np.floor(wanted).astype(int)
    # what rounding left over goes to the largest remainders, the first of equal ones
    most_cut = np.argsort(counts - wanted, kind="stable")
    counts[most_cut[: total - counts.sum()]] += 1
    return dict(zip(sizes, counts.tolist(), strict=True))
