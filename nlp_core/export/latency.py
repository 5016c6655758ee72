"""Measure how long predictions take: one sentence at a time, and in batches.

All models are timed in turn on the same sentence, so that other load falls on all alike. The order
of the sentences is random, the first ones are warm-up, and garbage collection is off.

Needs no torch: torch models come as a `TimedModel` from `timing.py`.
"""

import gc
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from nlp_core.errors import plural
from nlp_core.processor import name_processor

if TYPE_CHECKING:  # it is large, and memory is measured in processes that time
    from nlp_core.config.export import TimingConfig

PERCENTILES = (50, 90, 99)
BATCH = 32
WARM_UP = 20


class TimedModel(Protocol):
    """A model to time: a bundle, or a trained model in torch."""

    def featurize(self, examples: Sequence[Any]) -> Any: ...

    def answer(self, read: Any) -> object:
        """Return predictions, decoded and named."""


class Timing(NamedTuple):
    """Measurements of a model, without featurising (`model`) and with it (`whole`).

    Milliseconds per sentence at batch 1, by percentile; rates in sentences per second at batch 32.
    """

    name: str
    model: dict[int, float]
    whole: dict[int, float]
    model_rate: float
    whole_rate: float


def time_models(
    models: Mapping[str, TimedModel],
    examples: Sequence[Any],
    config: "TimingConfig",
    *,
    seed: int,
) -> list[Timing]:
    """Time models once; the seed draws the sentences and their order."""
    generator = np.random.default_rng(seed)
    singles = [[examples[idx]] for idx in _draw(generator, len(examples), config.sentences)]
    drawn = _draw(generator, len(examples), config.batches * BATCH)
    batches = [
        [examples[idx] for idx in drawn[start : start + BATCH]]
        for start in range(0, len(drawn), BATCH)
    ]
    for model in models.values():
        for example in singles[:WARM_UP]:
            model.answer(model.featurize(example))
        model.answer(model.featurize(batches[0]))
    one = time_each(models, singles)
    many = time_each(models, batches)
    return [_summarise(name, one[name], many[name]) for name in models]


def _draw(generator: np.random.Generator, size: int, count: int) -> list[int]:
    """Return `count` indices in random order, each drawn equally often, or once more."""
    rounds = [generator.permutation(size) for _ in range(-(-count // size))]
    found: list[int] = np.concatenate(rounds)[:count].tolist()
    return found


def time_each(
    models: Mapping[str, TimedModel], inputs: Sequence[Sequence[Any]]
) -> dict[str, np.ndarray]:
    """Return seconds of featurising and of the rest, [N, 2], for each model."""
    clock: Callable[[], float] = time.perf_counter
    found = {name: np.empty((len(inputs), 2)) for name in models}
    names = list(models)
    gc.collect()
    gc.disable()
    try:
        for number, examples in enumerate(inputs):
            turn = number % len(names)
            for name in names[turn:] + names[:turn]:
                model = models[name]
                begun = clock()
                read = model.featurize(examples)
                ready = clock()
                model.answer(read)
                found[name][number] = ready - begun, clock() - ready
    finally:
        gc.enable()
    return found


def _summarise(name: str, one: np.ndarray, many: np.ndarray) -> Timing:
    model, whole = 1000 * one[:, 1], 1000 * one.sum(1)
    count = BATCH * len(many)
    return Timing(
        name,
        {rank: float(np.percentile(model, rank)) for rank in PERCENTILES},
        {rank: float(np.percentile(whole, rank)) for rank in PERCENTILES},
        float(count / many[:, 1].sum()),
        float(count / many.sum()),
    )


def describe_hardware(threads: int) -> str:
    """Return the processor, the number of cores, and the threads of each model."""
    return f"{name_processor()}, {os.cpu_count()} processors, {plural(threads, 'thread')}"
