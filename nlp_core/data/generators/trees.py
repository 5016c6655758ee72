"""Sample requests to an assistant, with trees of intents and slots inside each other."""

from nlp_core.data.sample import DAYS, FIRST_NAMES, GENERATORS, THINGS, Dice, pick_place

VERBS = ("let me know", "tell me", "show me", "find out", "check")
RELATIONS = ("brother", "sister", "boss", "neighbor", "cousin", "teacher", "doctor", "aunt")
SHOWS = ("concert", "fair", "lecture", "market", "match", "opera", "parade", "play", "race")
SORTS = ("free", "big", "outdoor", "family", "jazz", "new", "local")
GOODS = ("milk", "bread", "flowers", "tickets", "stamps", "apples", "books", "paper")
WAYS = ("car", "bus", "train", "bike", "boat", "foot")
NESTED_PROB = 0.5
"""Share of places, persons and matters that are a request of their own."""


@GENERATORS.register("sample_trees")
def write_requests(dice: Dice, size: int) -> str:
    """Write requests in TOP's three columns, without a header: text, tokens, tree."""
    lines = []
    for _ in range(size):
        tree = _write_request(dice)
        text = " ".join(part for part in tree.split() if part[:1] not in "[]")
        lines.append(f"{text}\t{text}\t{tree}")
    return "\n".join(lines) + "\n"


def _write_request(dice: Dice) -> str:
    sorts = (_ask_way, _ask_time, _ask_event, _remind, _send, _ask_weather)
    return sorts[dice.number(0, len(sorts) - 1)](dice)


def _slot(name: str, words: str) -> str:
    return f"[SL:{name} {words} ]"


def _ask_way(dice: Dice) -> str:
    start = f" from {_slot('SOURCE', _place(dice))}" if dice.chance(0.4) else ""
    way = f" by {_slot('WAY', dice.pick(WAYS))}" if dice.chance(0.4) else ""
    verb = dice.pick(("how do i get", "the way", "directions", "take me"))
    return f"[IN:GET_WAY {verb}{start} to {_slot('GOAL', _place(dice))}{way} ]"


def _ask_time(dice: Dice) -> str:
    words = dice.pick(("when must i leave for", "when should we set off for"))
    goal = _slot("GOAL", _place(dice))
    arrival = f" to be there {_slot('ARRIVAL', _date(dice))}" if dice.chance(0.5) else ""
    return f"[IN:GET_TIME {words} {goal}{arrival} ]"


def _ask_event(dice: Dice) -> str:
    return _find_event(dice, dice.pick(VERBS) + " what")


def _ask_weather(dice: Dice) -> str:
    place = f" in {_slot('PLACE', _place(dice))}" if dice.chance(0.7) else ""
    words = dice.pick(("will it rain", "how cold is it", "what is the weather"))
    return f"[IN:GET_WEATHER {words}{place} {_slot('DATE', _date(dice))} ]"


def _remind(dice: Dice) -> str:
    matter = f"buy {dice.pick(GOODS)}"
    if dice.chance(NESTED_PROB):
        matter = dice.pick(("see ", "go to ")) + _find_event(dice, "the")
        matter = _send(dice) if dice.chance(0.5) else matter
    date = f" {_slot('DATE', _date(dice))}" if dice.chance(0.6) else ""
    return f"[IN:SET_REMINDER remind me{date} to {_slot('MATTER', matter)} ]"


def _send(dice: Dice) -> str:
    content = f"i will be at {dice.pick(THINGS)} {_date(dice)}"
    if dice.chance(0.4):
        content = f"{dice.pick(GOODS)} are for {_date(dice)}"
    words = dice.pick(("text", "write to", "message"))
    person, that = _slot("PERSON", _person(dice)), dice.pick(("that", "saying"))
    return f"[IN:SEND_MESSAGE {words} {person} {that} {_slot('CONTENT', content)} ]"


def _find_event(dice: Dice, words: str) -> str:
    sort = f" {_slot('SORT', dice.pick(SORTS))}" if dice.chance(0.4) else ""
    event = _slot("EVENT", dice.pick(SHOWS))
    place = f" in {_slot('PLACE', pick_place(dice))}" if dice.chance(0.4) else ""
    date = f" {_slot('DATE', _date(dice))}" if dice.chance(0.4) else ""
    return f"[IN:FIND_EVENT {words}{sort} {event}{place}{date} ]"


def _place(dice: Dice) -> str:
    if not dice.chance(NESTED_PROB):
        return f"the {dice.pick(THINGS)}" if dice.chance(0.3) else pick_place(dice)
    choice = dice.number(1, 3)
    if choice == 1:
        return _find_event(dice, "the")
    if choice == 2:
        near = f" in {_slot('PLACE', pick_place(dice))}" if dice.chance(0.6) else ""
        return f"[IN:FIND_PLACE the nearest {_slot('SORT', dice.pick(THINGS))}{near} ]"
    return f"[IN:GET_HOME the house of {_slot('PERSON', _person(dice))} ]"


def _person(dice: Dice) -> str:
    if dice.chance(NESTED_PROB):
        return dice.pick_skewed(FIRST_NAMES)
    return f"[IN:GET_CONTACT my {_slot('RELATION', dice.pick(RELATIONS))} ]"


def _date(dice: Dice) -> str:
    day = dice.pick(DAYS)
    forms = (f"on {day}", f"next {day}", "tomorrow", f"at {dice.number(1, 12)} o'clock", "tonight")
    return dice.pick(forms)
