"""Where tags are wrong: entities by type, sort of error and length of the sentence.

An entity is a type with its first and last token. An error is of the first sort that fits: a wrong
type at the right tokens, wrong ends of the right type, or missed. A predicted entity that shares
no token with a right one is invented.
"""

from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np

from nlp_core.kinds import LABEL, TAGS
from nlp_core.report.examples import Runs
from nlp_core.site.breakdown import (
    MOST_EXAMPLES,
    UNBOUNDED,
    Breakdown,
    count_right_seeds,
    format_mean,
    measure_f1,
    name_range,
)
from nlp_core.statistics.score import TypedSpan, find_entities

LENGTHS = ((1, 5), (6, 10), (11, 20), (21, 40), (41, UNBOUNDED))
"""Fewest and most tokens of each slice."""
SORTS = ("right", "wrong type", "wrong ends", "missed")
MOST_ENTITIES = 8  # of an example's errors


class TaggedSentence(NamedTuple):
    """A sentence with the answers of a seed: tokens, right and predicted entities, and both.

    A sentence without an intent counts as one whose intent is right.
    """

    size: int
    right: frozenset[TypedSpan]
    found: frozenset[TypedSpan]
    is_label_right: bool
    hits: frozenset[TypedSpan]

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
        _slice("By type", "type", [_count_by_type(seed) for seed in seeds], _list_types(seeds)),
        _sort_errors(seeds),
        _slice(
            "By length",
            "tokens",
            [_count_by_length(seed) for seed in seeds],
            [name_range(*bounds) for bounds in LENGTHS],
        ),
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
    right = predicted = hits = find_entities(tags)
    if found != tags:
        predicted = find_entities(found)
        hits = right & predicted
    return TaggedSentence(len(tags), right, predicted, is_label_right, hits)


def _list_tags(answer: object) -> tuple[str, ...]:
    return tuple(answer[TAGS] if isinstance(answer, Mapping) else cast(Iterable[str], answer))


def _list_types(seeds: list[list[TaggedSentence]]) -> list[str]:
    return sorted({entity.type for seed in seeds for item in seed for entity in item.right})


def _count_by_type(seed: list[TaggedSentence]) -> list[Counter[str]]:
    """Return how many entities of each type are hit, predicted and right."""
    return [
        Counter(entity.type for item in seed for entity in item.hits),
        Counter(entity.type for item in seed for entity in item.found),
        Counter(entity.type for item in seed for entity in item.right),
    ]


def _count_by_length(seed: list[TaggedSentence]) -> list[Counter[str]]:
    """Return how many entities are hit, predicted and right in sentences of each slice."""
    counts: list[Counter[str]] = [Counter(), Counter(), Counter()]
    starts, names = [low for low, _ in LENGTHS], [name_range(*bounds) for bounds in LENGTHS]
    for item in seed:
        name = names[bisect(starts, item.size) - 1]
        sides = (item.hits, item.found, item.right)
        for count, entities in zip(counts, sides, strict=True):
            count[name] += len(entities)
    return counts


def _slice(
    title: str, first: str, seeds: Sequence[Sequence[Counter[str]]], keys: Sequence[str]
) -> Breakdown:
    """Return precision, recall and F1 of the entities that belong to each key."""
    rows = []
    for key in keys:
        if support := seeds[0][2][key]:
            scores = [measure_f1(*(count[key] for count in counts)) for counts in seeds]
            shown = map(format_mean, zip(*scores, strict=True))
            rows.append([key, f"{support:,}", *shown])
    header = [first, "entities", "precision", "recall", "F1"]
    return Breakdown(title, header, rows, "Means over seeds.")


def _sort_errors(seeds: list[list[TaggedSentence]]) -> Breakdown:
    counts: dict[str, Counter[str]] = {name: Counter() for name in _list_types(seeds)}
    for item in (item for seed in seeds for item in seed):
        for entity in item.right:
            counts[entity.type][sort_error(entity, item.found)] += 1
        for entity in sorted(item.found - item.right):
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
