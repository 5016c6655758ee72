"""Where tags are wrong: entities by type, sort of error and length of the sentence.

An entity is a type with its first and last token. An error is of the first sort that fits: a wrong
type at the right tokens, wrong ends of the right type, or missed. A predicted entity that shares
no token with a right one is invented.
"""

from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from nlp_core.kinds import LABEL, TAGS
from nlp_core.metrics import Predictions
from nlp_core.report.examples import Runs
from nlp_core.site.breakdown import (
    LENGTHS,
    MOST_EXAMPLES,
    RIGHT,
    ROWS,
    Breakdown,
    Slicer,
    count_right_seeds,
    count_seeds,
    format_mean,
    measure_f1,
    name_range,
    note_seeds,
)
from nlp_core.statistics.summands import TypedSpan, find_entities

BY_LENGTH = "By length"
STARTS = [first for first, _ in LENGTHS]
SORTS = ("right", "wrong type", "wrong ends", "missed")
MOST_ENTITIES = 8  # of an example's errors


class EntityCounts(NamedTuple):
    """How many entities of each name are hit, predicted and right."""

    hits: Counter[str]
    found: Counter[str]
    right: Counter[str]


class TaggedSentence(NamedTuple):
    """A sentence with the answers of a seed: its number of tokens, and entities.

    A sentence without an intent counts as one whose intent is right.
    """

    size: int
    right: frozenset[TypedSpan]
    found: frozenset[TypedSpan]
    is_label_right: bool

    @property
    def missed(self) -> list[TypedSpan]:
        return sorted(self.right - self.found)

    @property
    def extra(self) -> list[TypedSpan]:
        return sorted(self.found - self.right)

    @property
    def num_errors(self) -> int:
        return len(self.right ^ self.found) + (not self.is_label_right)


class TaggedRuns:
    """The sentences of a split as they should be, and of each seed those with another answer.

    Most answers are right, so only the others are looked at one by one.
    """

    def __init__(self, predictions: Sequence[Predictions]) -> None:
        targets = predictions[0].target
        self.right = [_read(target) for target in targets]
        self.others = [
            {
                idx: _replace_answer(self.right[idx], target, found)
                for idx, (target, found) in enumerate(zip(targets, run.prediction, strict=True))
                if target != found
            }
            for run in predictions
        ]

    @property
    def types(self) -> list[str]:
        return sorted({entity.type for item in self.right for entity in item.right})

    def count_errors(self) -> NDArray[np.int64]:
        """Return how many errors each seed makes in each sentence, [S, N]."""
        found = np.zeros((len(self.others), len(self.right)), np.int64)
        for counts, others in zip(found, self.others, strict=True):
            for idx, item in others.items():
                counts[idx] = item.num_errors
        return found

    def count(self, name: Callable[[TaggedSentence, TypedSpan], str]) -> list[EntityCounts]:
        """Return how many entities of each name are hit, predicted and right, for each seed."""
        right = Counter(name(item, entity) for item in self.right for entity in item.right)
        counts = []
        for others in self.others:
            missed = Counter(name(item, one) for item in others.values() for one in item.missed)
            extra = Counter(name(item, one) for item in others.values() for one in item.extra)
            hits = right - missed
            counts.append(EntityCounts(hits, hits + extra, right))
        return counts

    def list_seeds(self, idx: int) -> list[TaggedSentence]:
        """Return a sentence with the answers of each seed."""
        return [others.get(idx, self.right[idx]) for others in self.others]


def break_down_tags(runs: Runs, slice_scores: Slicer) -> list[Breakdown]:
    """Return the tables of a task with tags, which may also have an intent."""
    tagged = TaggedRuns(runs.predictions)
    errors_SN = tagged.count_errors()
    types, lengths = tagged.types, [name_range(*bounds) for bounds in LENGTHS]
    by_type = tagged.count(lambda _, entity: entity.type)
    by_length = tagged.count(lambda item, _: lengths[bisect(STARTS, item.size) - 1])
    slices = slice_scores(RIGHT, runs.ids, 100 * (errors_SN == 0))
    return [
        _slice("By type", "type", by_type, types),
        _sort_errors(tagged, by_type),
        _slice(BY_LENGTH, "tokens", by_length, lengths),
        # of length, the scores of entities say more than those of sentences
        *(table for table in slices if table.title != BY_LENGTH),
        count_right_seeds(errors_SN == 0, "sentences"),
        _list_worst(runs.ids, tagged, errors_SN.mean(0)),
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


def _read(answer: object) -> TaggedSentence:
    tags = _list_tags(answer)
    entities = find_entities(tags)
    return TaggedSentence(len(tags), entities, entities, is_label_right=True)


def _replace_answer(right: TaggedSentence, target: object, prediction: object) -> TaggedSentence:
    is_label_right = not isinstance(target, dict) or target[LABEL] == prediction[LABEL]  # type: ignore[index]
    return right._replace(
        found=find_entities(_list_tags(prediction)), is_label_right=is_label_right
    )


def _list_tags(answer: object) -> tuple[str, ...]:
    return tuple(answer[TAGS] if isinstance(answer, dict) else cast(Iterable[str], answer))


def _slice(title: str, first: str, seeds: Sequence[EntityCounts], keys: Sequence[str]) -> Breakdown:
    """Return precision, recall and F1 of the entities that belong to each key."""
    rows = []
    for key in keys:
        if support := seeds[0].right[key]:
            scores = [measure_f1(*(count[key] for count in counts)) for counts in seeds]
            shown = map(format_mean, zip(*scores, strict=True))
            rows.append([key, f"{support:,}", *shown])
    header = [first, "entities", "precision", "recall", "F1"]
    return Breakdown(title, header, rows, note_seeds("", len(seeds)))


def _sort_errors(tagged: TaggedRuns, by_type: Sequence[EntityCounts]) -> Breakdown:
    counts = {
        name: Counter({SORTS[0]: sum(seed.hits[name] for seed in by_type)}) for name in tagged.types
    }
    for item in chain.from_iterable(others.values() for others in tagged.others):
        for entity in item.missed:
            counts[entity.type][sort_error(entity, item.found)] += 1
        for entity in item.extra:
            if not any(_overlap(entity, other) for other in item.right):
                counts.setdefault(entity.type, Counter())["invented"] += 1
    sorts = [*SORTS, "invented"]
    rows = [[name, *(f"{found[sort]:,}" for sort in sorts)] for name, found in counts.items()]
    rows.append(["all", *(f"{sum(found[sort] for found in counts.values()):,}" for sort in sorts)])
    num_seeds = len(tagged.others)
    note = f"Entities, counted over {num_seeds} seeds." if num_seeds > 1 else "Entities."
    return Breakdown("Sorts of errors", ["type", *sorts], rows if counts else [], note)


def _list_worst(
    ids: Sequence[int], tagged: TaggedRuns, errors_N: NDArray[np.floating]
) -> Breakdown:
    rows = []
    for idx in np.argsort(-errors_N, kind="stable")[:MOST_EXAMPLES]:
        if not errors_N[idx]:
            break
        items = tagged.list_seeds(idx)
        missed = Counter(entity for item in items for entity in item.missed)
        extra = Counter(entity for item in items for entity in item.extra)
        intents = sum(not item.is_label_right for item in items)
        missing = _write(missed, len(items))
        if intents:
            missing += "; " * bool(missing) + count_seeds("intent", intents, len(items))
        row = [str(ids[idx]), str(items[0].size), str(len(items[0].right))]
        rows.append([*row, missing, _write(extra, len(items)), f"{errors_N[idx]:.1f}"])
    header = ["row", "tokens", "entities", "not predicted (seeds)", "wrongly predicted (seeds)"]
    header.append("errors a seed")
    if len(tagged.others) == 1:
        header[3:] = ["not predicted", "wrongly predicted", "errors"]
    return Breakdown("Worst examples", header, rows, f"{ROWS} So are tokens.")


def _write(entities: Counter[TypedSpan], num_seeds: int) -> str:
    ordered = sorted(entities.items(), key=lambda item: (-item[1], item[0].first, item[0]))
    shown = []
    for entity, count in ordered[:MOST_ENTITIES]:
        place = f"{entity.first}-{entity.last}" if entity.last > entity.first else entity.first
        shown.append(count_seeds(f"{entity.type} {place}", count, num_seeds))
    return "; ".join(shown) + (" ..." if len(entities) > MOST_ENTITIES else "")
