"""Sample requests to an assistant, each with the command that it means."""

from nlp_core.data.sample import (
    DAYS,
    FIRST_NAMES,
    GENERATORS,
    MONTHS,
    THINGS,
    Dice,
    pick_surname,
    pick_town,
)

GREETINGS = ("please", "could you", "hey ,", "i want you to", "")
MATTERS = ("the budget", "the new plan", "lunch", "the party", "our trip", "the report")
VOWELS = "aeiou"
MADE_UP = 0.4
"""Share of names of a random spelling, which train and test hardly share: they must be copied."""


@GENERATORS.register("sample_commands")
def write_commands(dice: Dice, size: int) -> str:
    """Write requests and commands, tab-separated, with a header.

    A command has the keys of its action in their own order, with dates as month and day. Names are
    copied; the order and the words of actions, dates and times are learnt.
    """
    lines = ["source\ttarget"]
    for _ in range(size):
        words, command = _write_pair(dice)
        greeting = dice.pick(GREETINGS)
        lines.append(f"{greeting} {words}".strip() + f"\t{command}")
    return "\n".join(lines) + "\n"


def _write_pair(dice: Dice) -> tuple[str, str]:
    person, town = _person(dice), _town(dice)
    date, said = _date(dice)
    hour, time = _time(dice)
    choice = dice.number(1, 5)
    if choice == 1:
        matter = dice.pick(MATTERS)
        words = dice.pick(("meet {p} {d} {t} about {m}", "{d} {t} see {p} to discuss {m}"))
        command = f"meeting ( who = {person} ; when = {date} {hour} ; about = {matter} )"
        return words.format(p=person, d=said, t=time, m=matter), command
    if choice == 2:
        other = _town(dice)
        words = dice.pick(("book a train from {a} to {b} {d}", "{d} i go to {b} , starting in {a}"))
        command = f"train ( from = {town} ; to = {other} ; when = {date} )"
        return words.format(a=town, b=other, d=said), command
    if choice == 3:
        words = dice.pick(("ring {p} in {a} {t}", "call {p} , who is in {a} , {t}"))
        return words.format(p=person, a=town, t=time), f"call ( who = {person} ; when = {hour} )"
    if choice == 4:
        thing = dice.pick(THINGS)
        words = dice.pick(("find me a {x} near {a}", "is there a {x} in {a} ?"))
        return words.format(x=thing, a=town), f"search ( what = {thing} ; where = {town} )"
    words = dice.pick(("remind {p} {d} that {m} is due", "tell {p} {d} that we need {m}"))
    matter = dice.pick(MATTERS)
    command = f"note ( to = {person} ; when = {date} ; text = {matter} )"
    return words.format(p=person, d=said, m=matter), command


def _person(dice: Dice) -> str:
    surname = pick_surname(dice)
    first = _spell(dice) if dice.chance(MADE_UP) else dice.pick_skewed(FIRST_NAMES)
    return f"{first} {surname}" if dice.chance(0.6) else first


def _town(dice: Dice) -> str:
    return _spell(dice) if dice.chance(MADE_UP) else pick_town(dice)


def _spell(dice: Dice) -> str:
    syllables = [
        dice.pick("bcdfghklmnprstvz") + dice.pick(VOWELS) for _ in range(dice.number(2, 4))
    ]
    return "".join(syllables).title()


def _date(dice: Dice) -> tuple[str, str]:
    """Return a date in a command, and in words."""
    if dice.chance(0.3):
        day = dice.pick(DAYS)
        return day.lower(), dice.pick(("on", "next", "this")) + f" {day}"
    month, number = dice.pick(MONTHS), dice.number(1, 28)
    forms = (f"on {month} {number}", f"on the {number} of {month}")
    return f"{month[:3].lower()} {number}", dice.pick(forms)


def _time(dice: Dice) -> tuple[str, str]:
    hour, is_late = dice.number(1, 11), dice.chance(0.5)
    half = dice.pick(("in the afternoon", "pm") if is_late else ("in the morning", "am"))
    return f"{hour + 12 * is_late} h", f"at {hour} {half}"
