"""Where tags are wrong: entities by type, sort of error and length of the sentence.

An entity is a type with its first and last token. An error is of the first sort that fits: a wrong
type at the right tokens, wrong ends of the right type, or missed. A predicted entity that shares
no token with a right one is invented.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple, TypeVar, cast

import numpy as np
from seqeval.metrics.sequence_labeling import get_entities

from nlp_core.kinds import LABEL, TAGS
from nlp_core.report.examples import Runs
from nlp_core.site.breakdown import (
    MOST_EXAMPLES,
    Breakdown,
    count_right_seeds,
    format_mean,
    measure_f1,
)

LENGTHS = ((1, 5), (6, 10), (11, 20), (21, 40), (41, 10**9))
"""Fewest and most tokens of each slice."""
SORTS = ("right", "wrong type", "wrong ends", "missed")
MOST_ENTITIES = 8  # of an example's errors
Counts = tuple[int, int, int]
"""Hits, predicted and right entities."""
Key = TypeVar("Key")


class TypedSpan(NamedTuple):
    type: str
    first: int
    last: int


class TaggedSentence(NamedTuple):
    """A sentence with the answers of a seed.

    Attributes:
        size: its tokens.
        right: its entities.
        found: the predicted ones.
        is_label_right: whether its intent is right; True where it has none.
    """

    size: int
    right: frozenset[TypedSpan]
    found: frozenset[TypedSpan]
    is_label_right: bool

    @property
    def counts(self) -> Counts:
        return len(self.right & self.found), len(self.found), len(self.right)

    @property
    def num_errors(self) -> int:
        return len(self.right ^ self.found) + (not self.is_label_right)


def break_down_tags(runs: Runs) -> list[Breakdown]:
    """Return the tables of a task with tags, which may also have an intent."""
    seeds = [
        [_read(*pair) for pair in zip(run.target, run.prediction, strict=True)]
        for run in runs.predictions
    ]
    right_SN = np.asarray([[item.num_errors == 0 for item in seed] for seed in seeds])
    return [
        _slice(seeds, _list_types(seeds), "By type", "type", "entities", _keep_type),
        _sort_errors(seeds),
        _slice(seeds, LENGTHS, "By length", "tokens", "entities", _keep_length),
        count_right_seeds(right_SN, "sentences"),
        _list_worst(runs, seeds),
    ]


def sort_error(entity: TypedSpan, found: frozenset[TypedSpan]) -> str:
    """Return the sort of a right entity's error, or `right`."""
    if entity in found:
        return SORTS[0]
    if any(other[1:] == entity[1:] for other in found):
        return SORTS[1]
    if any(other.type == entity.type and _overlap(other, entity) for other in found):
        return SORTS[2]
    return SORTS[3]


def _overlap(one: TypedSpan, other: TypedSpan) -> bool:
    return one.first <= other.last and other.first <= one.last


def _read(target: object, prediction: object) -> TaggedSentence:
    tags, found = _list_tags(target), _list_tags(prediction)
    is_label_right = True
    if isinstance(target, Mapping) and isinstance(prediction, Mapping):
        is_label_right = target[LABEL] == prediction[LABEL]
    return TaggedSentence(len(tags), _find_entities(tags), _find_entities(found), is_label_right)


@lru_cache(maxsize=1 << 16)  # seeds share the right tags, and most predictions are right
def _find_entities(tags: tuple[str, ...]) -> frozenset[TypedSpan]:
    return frozenset(TypedSpan(*item) for item in get_entities(list(tags)))


def _list_tags(answer: object) -> tuple[str, ...]:
    return tuple(answer[TAGS] if isinstance(answer, Mapping) else cast(Iterable[str], answer))


def _list_types(seeds: list[list[TaggedSentence]]) -> list[str]:
    return sorted({entity.type for seed in seeds for item in seed for entity in item.right})


def _keep_type(name: str, item: TaggedSentence) -> Counts:
    right, found = (
        {entity for entity in side if entity.type == name} for side in (item.right, item.found)
    )
    return len(right & found), len(found), len(right)


def _keep_length(bounds: tuple[int, int], item: TaggedSentence) -> Counts:
    return item.counts if bounds[0] <= item.size <= bounds[1] else (0, 0, 0)


def _slice(
    seeds: list[list[TaggedSentence]],
    keys: Iterable[Key],
    title: str,
    first: str,
    units: str,
    count: Callable[[Key, TaggedSentence], Counts],
) -> Breakdown:
    """Return precision, recall and F1 of the entities that belong to each key."""
    rows = []
    for key in keys:
        sums = [np.sum([count(key, item) for item in seed], 0).tolist() for seed in seeds]
        if sums[0][2]:
            scores = [measure_f1(*counts) for counts in sums]
            shown = map(format_mean, zip(*scores, strict=True))
            rows.append([_name(key), f"{sums[0][2]:,}", *shown])
    return Breakdown(title, [first, units, "precision", "recall", "F1"], rows, "Means over seeds.")


def _name(key: object) -> str:
    if not isinstance(key, tuple):
        return str(key)
    low, high = key
    return f"{low} or more" if high == LENGTHS[-1][1] else f"{low} to {high}"


def _sort_errors(seeds: list[list[TaggedSentence]]) -> Breakdown:
    counts: dict[str, Counter[str]] = {name: Counter() for name in _list_types(seeds)}
    for item in (item for seed in seeds for item in seed):
        for entity in item.right:
            counts[entity.type][sort_error(entity, item.found)] += 1
        for entity in item.found - item.right:
            if not any(_overlap(entity, other) for other in item.right):
                counts.setdefault(entity.type, Counter())["invented"] += 1
    sorts = [*SORTS, "invented"]
    rows = [[name, *(f"{found[sort]:,}" for sort in sorts)] for name, found in counts.items()]
    rows.append(["all", *(f"{sum(found[sort] for found in counts.values()):,}" for sort in sorts)])
    note = f"Entities, counted over {len(seeds)} seeds." if len(seeds) > 1 else "Entities."
    return Breakdown("Sorts of errors", ["type", *sorts], rows if counts else [], note)


def _list_worst(runs: Runs, seeds: list[list[TaggedSentence]]) -> Breakdown:
    errors = np.asarray([[item.num_errors for item in seed] for seed in seeds]).mean(0)
    rows = []
    for idx in np.argsort(-errors, kind="stable")[:MOST_EXAMPLES]:
        if not errors[idx]:
            break
        items = [seed[idx] for seed in seeds]
        missed = Counter(entity for item in items for entity in sorted(item.right - item.found))
        extra = Counter(entity for item in items for entity in sorted(item.found - item.right))
        intents = sum(not item.is_label_right for item in items)
        missing = _write(missed) + (f"; intent ({intents})" if intents else "")
        row = [str(runs.ids[idx]), str(items[0].size), str(len(items[0].right))]
        rows.append([*row, missing, _write(extra), f"{errors[idx]:.1f}"])
    header = ["row", "tokens", "entities", "not predicted (seeds)", "wrongly predicted (seeds)"]
    note = "Row numbers in the official file and token numbers, both from 0."
    return Breakdown("Worst examples", [*header, "errors a seed"], rows, note)


def _write(entities: Counter[TypedSpan]) -> str:
    ordered = sorted(entities.items(), key=lambda item: (-item[1], item[0].first, item[0]))
    shown = [
        f"{entity.type} {entity.first}"
        + (f"-{entity.last}" if entity.last > entity.first else "")
        + f" ({count})"
        for entity, count in ordered[:MOST_ENTITIES]
    ]
    return "; ".join(shown) + (" ..." if len(entities) > MOST_ENTITIES else "")
