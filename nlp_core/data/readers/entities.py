"""Entities that a cell gives as stretches of a text: from which letter to which, and of what type.

A list holds one item for each, `[0, 4, "PER"]` or an object of `start`, `end` and `label`; a text
holds `0:4:PER`, with commas between several. The end is the letter behind the last one.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from nlp_core.data.tagging_scheme import Entity
from reglue_runtime.text import Stretch

STARTS = ("start", "start_offset")
ENDS = ("end", "end_offset")
LABELS = ("label", "labels", "type", "entity", "tag")
PARTS = (STARTS, ENDS, LABELS)
"""What annotation tools call the parts of an entity."""
PLACE = re.compile(r"\d{1,12}")
EXPECTED = 'expected entities, such as [[0, 4, "PER"]], [{"start": 0, "end": 4, "label": "PER"}]'


class EntityError(ValueError):
    """Say what is wrong with the entities of a cell."""


class TaggedStretches(NamedTuple):
    """Entities of a text by its tokens.

    Attributes:
        spans: in order, none over another.
        widened: how many began or ended inside of a token, and were taken for whole ones.
    """

    spans: list[Entity]
    widened: int


def parse_entities(cell: Any) -> list[Entity]:  # Any: a cell of JSON
    """Return the entities of a cell, by letters; an empty one has none.

    Raises:
        EntityError: it holds something else.
    """
    if cell is None:
        return []
    if isinstance(cell, str):
        parts = [part.strip() for part in cell.split(",") if part.strip()]
        return [_build(*part.split(":", 2), whole=part) for part in parts]
    if not isinstance(cell, list):
        raise EntityError(f"found {cell!r:.200}, {EXPECTED}")
    return [_parse_item(item) for item in cell]


def _parse_item(item: Any) -> Entity:  # Any: JSON
    if isinstance(item, list):
        return _build(*item, whole=item)
    if isinstance(item, dict):
        found = [next((item[key] for key in keys if key in item), None) for keys in PARTS]
        return _build(*found, whole=item)
    raise EntityError(f"found {item!r:.200}, {EXPECTED}")


def _build(*parts: Any, whole: object) -> Entity:  # Any: JSON
    """Return an entity of a start, an end and a label."""
    if len(parts) == len(PARTS):
        start, end, label = parts
        if isinstance(label, list) and len(label) == 1:
            (label,) = label
        name = label.strip() if isinstance(label, str) else ""
        is_place = all(PLACE.fullmatch(str(letter)) for letter in (start, end))
        if name and is_place and int(start) < int(end):
            return Entity(int(start), int(end), name)
    raise EntityError(f"found {whole!r:.200}, {EXPECTED}, with the start before the end")


def find_tokens(text: str, stretches: Sequence[Stretch], entities: list[Entity]) -> TaggedStretches:
    """Return entities by the tokens that they cover; white space at their borders does not count.

    Args:
        text: what they stand in.
        stretches: where its tokens stand.
        entities: by letters, in any order.

    Raises:
        EntityError: one ends behind the text, has no token, or shares one with another.
    """
    spans: list[Entity] = []
    widened = 0
    for entity in sorted(entities):
        if entity.end > len(text):
            found = f"found an entity up to letter {entity.end} of {len(text)}"
            raise EntityError(f"{found}, expected one inside of its text; counted are letters")
        covered = [
            idx
            for idx, (start, end) in enumerate(stretches)
            if start < entity.end and end > entity.start
        ]
        if not covered:
            shown = text[entity.start : entity.end]
            raise EntityError(f"found the entity '{shown}', expected one with a token in it")
        first, last = covered[0], covered[-1]
        if spans and spans[-1].end > first:
            shown = text[entity.start : entity.end]
            raise EntityError(
                f"found the entity '{shown}', which has a token that an entity before it has, "
                "expected each token in one entity at most"
            )
        widened += stretches[first].start < entity.start or stretches[last].end > entity.end
        spans.append(Entity(first, last + 1, entity.label))
    return TaggedStretches(spans, widened)
