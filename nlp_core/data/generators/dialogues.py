"""Sample dialogues with an assistant, whose later turns mean something only after earlier ones."""

import json

from nlp_core.data.sample import DAYS, GENERATORS, Dice, pick_town

TOPICS = {
    "trip": ("book a train to {place} for {number} on {day}", "i need seats to {place} , {number}"),
    "table": ("reserve a table in {place} for {number}", "find us a restaurant near {place} {day}"),
    "alarm": ("wake me at {number} on {day}", "set an alarm for {number}"),
}
"""How a dialogue comes to a topic."""
COUNTED = {"trip": "seats", "table": "guests", "alarm": "hour"}
"""The slot that a number fills, by topic."""
FOLLOWING = {
    "change": ("make it {number}", "{number} , please", "no , {number} instead"),
    "move": ("better on {day}", "move it to {day}", "{day} is better"),
    "cancel": ("cancel that", "forget it", "no , drop it"),
}
"""Turns that say nothing of their topic: the last topic of the dialogue decides."""
ASIDES = ("thank you", "ok", "good", "let me see")
NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine")


@GENERATORS.register("sample_dialogues")
def write_dialogues(dice: Dice, size: int) -> str:
    """Write dialogues of two to six turns, an object per line."""
    return "".join(json.dumps({"turns": _write_turns(dice)}) + "\n" for _ in range(size))


def _write_turns(dice: Dice) -> list[dict[str, str]]:
    topic = dice.pick([*TOPICS])
    turns = [_fill(dice, dice.pick(TOPICS[topic]), topic, f"book_{topic}")]
    for _ in range(dice.number(1, 5)):
        share = dice.number(1, 100)
        if share <= 20:
            topic = dice.pick([*TOPICS])
            turns.append(_fill(dice, dice.pick(TOPICS[topic]), topic, f"book_{topic}"))
        elif share <= 32:
            turns.append(_fill(dice, dice.pick(ASIDES), topic, "aside"))
        else:
            action = dice.pick([*FOLLOWING])
            turns.append(_fill(dice, dice.pick(FOLLOWING[action]), topic, f"{action}_{topic}"))
    return turns


def _fill(dice: Dice, form: str, topic: str, intent: str) -> dict[str, str]:
    values = {
        "{place}": ("place", pick_town(dice)),
        "{number}": (COUNTED[topic], dice.pick(NUMBERS)),
        "{day}": ("day", dice.pick(DAYS)),
    }
    pairs = [
        (values[word][1], f"B-{values[word][0]}") if word in values else (word, "O")
        for word in form.split()
    ]
    words, tags = zip(*pairs, strict=True)
    return {"text": " ".join(words), "tags": " ".join(tags), "intent": intent}
