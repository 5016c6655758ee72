"""Entities by character offsets, as annotation tools write them in one cell.

A list holds one item for each, `[0, 4, "PER"]` or an object of `start`, `end` and `label`; a text
holds `0:4:PER`, separated by commas. Offsets count from 0; the end is exclusive.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from reglue_runtime.decoding import Span
from reglue_runtime.text import Offsets

STARTS = ("start", "start_offset")
ENDS = ("end", "end_offset")
LABELS = ("label", "labels", "type", "entity", "tag")
PARTS = (STARTS, ENDS, LABELS)
"""What annotation tools call the parts of an entity."""
PLACE = re.compile(r"\d{1,12}")
EXPECTED = 'expected entities, such as [[0, 4, "PER"]], [{"start": 0, "end": 4, "label": "PER"}]'
TOTAL, INSIDE = "total", "inside"
INCLUSIVE = "the ends seem to be inclusive; add 1 to each end"
REPAIRS = {
    INCLUSIVE: (0, 1),
    "all offsets seem to be 1 too small; add 1 to each start and end": (1, 1),
    "all offsets seem to be 1 too large; subtract 1 from each start and end": (-1, -1),
}
"""Usual mistakes in offsets, and what to add to start and end."""
LIKELY = 0.9
"""Share of entities that a repair must put on the borders of tokens to be suggested."""


class EntityError(ValueError):
    """What is wrong with the entities of a cell."""


class TaggedSpans(NamedTuple):
    """Entities by tokens.

    Attributes:
        spans: in order, without overlap.
        borders: how many entities there are in all (TOTAL), begin or end inside a token (INSIDE),
            and would begin and end where tokens do after each of REPAIRS.
    """

    spans: list[Span]
    borders: Counter[str]


class BorderCheck:
    """Sum up how the entities of a file fit its tokens."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._first = 0

    def add(self, borders: Mapping[str, int], line: int) -> None:
        self._counts.update(borders)
        if borders.get(INSIDE) and not self._first:
            self._first = line

    def describe(self) -> str:
        """Return a warning with the likely mistake; an empty text if all entities fit."""
        total, inside = self._counts[TOTAL], self._counts[INSIDE]
        if not inside:
            return ""
        found = (
            f"{inside} of {total} entities ({inside / total:.0%}) begin or end inside a token, the "
            f"first in line {self._first}, and are widened to whole tokens"
        )
        repair = max(REPAIRS, key=lambda name: self._counts[name])
        is_likely = inside > total / 2 and self._counts[repair] >= LIKELY * total
        return f"{found}: {repair}" if is_likely else found


def parse_entities(cell: Any) -> list[Span]:  # Any: a cell of JSON
    """Return the entities of a cell, by offsets; raise EntityError if it contains anything else."""
    if cell is None:
        return []
    if isinstance(cell, str):
        parts = [part.strip() for part in cell.split(",") if part.strip()]
        return [_build(*part.split(":", 2), whole=part) for part in parts]
    if not isinstance(cell, list):
        raise EntityError(f"found {cell!r:.200}, {EXPECTED}")
    return [_parse_item(item) for item in cell]


def _parse_item(item: Any) -> Span:  # Any: JSON
    if isinstance(item, list):
        return _build(*item, whole=item)
    if isinstance(item, dict):
        found = [next((item[key] for key in keys if key in item), None) for keys in PARTS]
        return _build(*found, whole=item)
    raise EntityError(f"found {item!r:.200}, {EXPECTED}")


def _build(*parts: Any, whole: object) -> Span:  # Any: JSON
    if len(parts) == len(PARTS):
        start, end, label = parts
        if isinstance(label, list) and len(label) == 1:
            (label,) = label
        name = label.strip() if isinstance(label, str) else ""
        is_place = all(PLACE.fullmatch(str(offset)) for offset in (start, end))
        if name and is_place and int(start) < int(end):
            return Span(int(start), int(end), name)
        if name and is_place and int(start) == int(end):
            raise EntityError(f"found {whole!r:.200}, an entity of no character; {INCLUSIVE}")
    raise EntityError(f"found {whole!r:.200}, {EXPECTED}, with start < end; the end is exclusive")


def find_tokens(text: str, offsets: Sequence[Offsets], entities: list[Span]) -> TaggedSpans:
    """Return entities by the tokens that they cover; white space at their borders does not count.

    `offsets` are those of the tokens; the entities have offsets too, and any order.

    Raises:
        EntityError: one ends after the text, covers no token, or shares one with another.
    """
    spans: list[Span] = []
    starts, ends = ({place[side] for place in offsets} for side in (0, 1))
    borders = Counter({TOTAL: len(entities)})
    for start, end, label in sorted(entities):
        shown = f"found the entity '{text[start:end]}'"
        if end > len(text):
            found = f"found an entity up to character {end} of {len(text)}"
            raise EntityError(f"{found}; offsets count from 0, and the end is exclusive")
        covered = [
            idx for idx, place in enumerate(offsets) if place.start < end and place.end > start
        ]
        if not covered:
            raise EntityError(f"{shown}, expected one with a token in it")
        first, last = covered[0], covered[-1]
        if spans and spans[-1].end > first:
            raise EntityError(f"{shown}, which shares a token with the entity before it")
        borders[INSIDE] += offsets[first].start < start or offsets[last].end > end
        for name, (more, later) in REPAIRS.items():
            borders[name] += start + more in starts and end + later in ends
        spans.append(Span(first, last + 1, label))
    return TaggedSpans(spans, borders)
