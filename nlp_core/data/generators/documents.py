"""Sample reviews of hotels, in which most sentences get their label from their neighbours."""

import json

from nlp_core.data.sample import GENERATORS, Dice

OPENINGS = {
    "food": ("breakfast began at seven", "we ate there twice", "the cook was away that day"),
    "place": ("the station is close by", "the lake is below it", "a park is near the door"),
    "room": ("our bed was wide", "the window faced a yard", "the bath had a new tub"),
    "staff": ("the porter met us", "a clerk took our bags", "the owner came to see us"),
}
"""How a part of a review begins or, for some parts, ends."""
FOLLOWING = (
    "{degree} {quality}",
    "it was {degree} {quality}",
    "the second day was {quality} too",
    "nobody expected that",
    "we had hoped for that",
    "my wife found it {quality}",
    "that was {degree} {quality} for the price",
)
"""Sentences of any part: the sentence that opens or ends the part decides."""
ASIDES = ("thank you for reading", "we travelled by train", "i write few reviews")
DEGREES = ("very", "rather", "not", "always", "quite")
QUALITIES = ("good", "bad", "pleasant", "poor", "fine", "nice", "odd")
LATE = 0.25
"""Share of the parts whose last sentence decides, not the first."""


@GENERATORS.register("sample_documents")
def write_documents(dice: Dice, size: int) -> str:
    """Write reviews of three to five parts, an object per line."""
    return "".join(json.dumps({"sentences": _write_sentences(dice)}) + "\n" for _ in range(size))


def _write_sentences(dice: Dice) -> list[dict[str, str]]:
    found: list[tuple[str, str]] = []
    before = ""
    for _ in range(dice.number(3, 5)):
        label = before = dice.pick([name for name in OPENINGS if name != before])
        part = [(_fill(dice, dice.pick(FOLLOWING)), label) for _ in range(dice.number(1, 3))]
        part.insert(len(part) if dice.chance(LATE) else 0, (dice.pick(OPENINGS[label]), label))
        found += part
        if dice.chance(0.2):
            found.append((dice.pick(ASIDES), "aside"))
    return [{"text": text, "label": label} for text, label in found]


def _fill(dice: Dice, form: str) -> str:
    return form.format(degree=dice.pick(DEGREES), quality=dice.pick(QUALITIES))
