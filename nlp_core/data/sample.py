"""Sample data: a seeded grammar writes small files in the official formats.

The tasks have a signal to learn, a share of wrong labels and words that train never shows, so
scores are below 100 and can move. Only `random.Random(...).random()` is drawn from, and no
transcendental function is called: the bytes are the same on every machine.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from nlp_core.data.sample_languages import LANGUAGES
from nlp_core.files import write_text
from nlp_core.registry import Registry

# Tuned so that simple models score between 75 and 95 points.
WRONG_LABEL_PROB = 0.05
UNANSWERED_PROB = 0.1
PLACE_SURNAME_PROB = 0.25
NO_VECTOR_PROB = 0.08
CLASS_WEIGHT = 0.45


def _split(words: str) -> list[str]:
    return words.split()


GOOD = _split(
    "bright charming clever crisp fresh funny generous gentle graceful honest inventive joyful "
    "lively moving original playful polished rich sharp sincere splendid tender thrilling warm "
    "witty wonderful heartfelt radiant assured nimble"
)
BAD = _split(
    "awkward bland boring careless clumsy cold confused crude dull empty flat forced gloomy "
    "hollow lazy limp messy muddled noisy pointless shallow shrill sloppy stale tedious thin "
    "tired ugly weak wooden"
)
PLAIN = _split("old new long short early late first second local recent usual quiet large small")
NOUNS = _split(
    "acting camera cast dialogue direction drama ending film humor idea joke lighting look movie "
    "mood music opening pace performance picture plot scene score script song staging story style "
    "theme voice"
)
DEGREES = _split("very rather quite truly really always often mostly")
NEGATIONS = _split("not never hardly")
FIRST_NAMES = _split(
    "Adele Anton Bela Boris Carla Clara Dario Edith Elsa Emil Fabio Felix Greta Hanna Hugo Ida "
    "Inga Ivan Jana Jonas Karl Lena Lukas Marta Milo Nadia Nils Olga Oskar Paula Petra Rosa Rufus "
    "Silva Tilda Tomas Ursula Vera Viktor Yara"
)
NAME_STARTS = _split(
    "Ald Ber Bran Cal Dor Elm Fal Gor Hal Har Kal Kes Lam Lin Mar Mel Nor Old Pel Ren Ros Sal "
    "Stan Tar Thor Val Wen Wim Yor Zan"
)
PERSON_ENDS = _split("son man sen ski er ley")
PLACE_ENDS = _split("ford burg ton dale stad mouth")
COMPANY_ENDS = _split("Bank Motors Steel Foods Airways United Holdings Press")
DAYS = _split("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
MONTHS = _split("January March April June July October November")
THINGS = _split(
    "bridge castle canal church factory fountain garden hall harbor hospital hotel library market "
    "mill museum palace school stadium station theater tower tunnel university zoo"
)
FUNCTION_WORDS = _split(
    "the a an of in on at by to for and but although with from is was were are has had have it "
    "its this that , . ? who when where how many which what whose person year number place near "
    "does do did there while after before said told beat won lost against percent shares rose "
    "fell match people reporters officials visitors rooms seats stands opened built designed "
    "architect drew located site found take hold holds open first made plans planned dates since "
    "about city river lake hill north south old some all part both most cup league talks minister "
    "chairman coach player company team town police met visit left met arrived signed deal world "
    "final season"
)

Writer = Callable[["Dice", int], str]
GENERATORS: Registry[Writer] = Registry("generator", package="nlp_core.data.generators")


class Dice:
    """Random choices that are the same in every version of the standard library."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def chance(self, prob: float) -> bool:
        return self._random.random() < prob

    def pick(self, items: Sequence[str]) -> str:
        return items[int(self._random.random() * len(items))]

    def pick_skewed(self, items: Sequence[str]) -> str:
        """Return one of the items, early ones more often, so that late ones are rare words."""
        share = self._random.random()
        return items[int(share * share * len(items))]

    def number(self, low: int, high: int) -> int:
        """Return a whole number from low to high, both included."""
        return low + int(self._random.random() * (high - low + 1))

    def shuffle(self, items: list[tuple[str, str]]) -> list[tuple[str, str]]:
        keyed = [(self._random.random(), item) for item in items]
        return [item for _, item in sorted(keyed)]

    def spread(self) -> float:
        """Return a number from -1 to 1."""
        return 2.0 * self._random.random() - 1.0


def generate(name: str, folder: Path, *, sizes: Mapping[str, int], seed: int) -> None:
    """Write the members of a sample source; sizes are sentences, questions or dimensions."""
    write = GENERATORS.get(name)
    for member, size in sorted(sizes.items()):
        write_text(folder / member, write(Dice(f"{seed}:{name}:{member}"), size))


@GENERATORS.register("sample_sentence")
def write_reviews(dice: Dice, size: int) -> str:
    """Write reviews with their sentiment in SST-2's format: sentence TAB label, with a header.

    The last clause decides; a negation flips it; a few labels are wrong.
    """
    lines = ["sentence\tlabel"]
    for _ in range(size):
        is_good = dice.chance(0.5)
        text = _write_review(dice, is_good)
        label = is_good != dice.chance(WRONG_LABEL_PROB)
        lines.append(f"{text} \t{int(label)}")
    return "\n".join(lines) + "\n"


def _write_review(dice: Dice, is_good: bool) -> str:
    clause = _write_opinion(dice, is_good)
    kind = dice.number(1, 4)
    if kind == 1:
        return f"{clause} , but {_write_opinion(dice, is_good)} ."
    other = _write_opinion(dice, not is_good)
    if kind == 2:
        return f"{other} , but {clause} ."
    if kind == 3:
        return f"although {other} , {clause} ."
    return f"{dice.pick(PLAIN)} or {dice.pick(PLAIN)} , {clause} ."


def _write_opinion(dice: Dice, is_good: bool) -> str:
    kind = f"{dice.pick(PLAIN)} " if dice.chance(0.3) else ""
    noun = f"the {kind}{dice.pick(NOUNS)}"
    if dice.chance(0.25):
        word = dice.pick_skewed(BAD if is_good else GOOD)
        return f"{noun} is {dice.pick(NEGATIONS)} {word}"
    word = dice.pick_skewed(GOOD if is_good else BAD)
    degree = f"{dice.pick(DEGREES)} " if dice.chance(0.5) else ""
    return f"{noun} is {degree}{word}"


@GENERATORS.register("sample_languages")
def write_foreign_reviews(dice: Dice, size: int) -> str:
    """Write short reviews with their language and sentiment, `size` in each language."""
    lines = ["text\tlanguage\tlabel"]
    for _ in range(size):
        for code, words in LANGUAGES.items():
            is_good = dice.chance(0.5)
            degree = dice.pick(words.degrees) if dice.chance(0.5) else ""
            opinion = dice.pick(words.good if is_good else words.bad)
            text = words.order.format(noun=dice.pick(words.nouns), degree=degree, opinion=opinion)
            label = is_good != dice.chance(WRONG_LABEL_PROB)
            lines.append(f"{text}\t{code}\t{int(label)}")
    return "\n".join(lines) + "\n"


class _Piece(NamedTuple):
    """Words of one entity type; an empty type for words outside entities."""

    words: str
    label: str = ""


@GENERATORS.register("sample_ner")
def write_news(dice: Dice, size: int) -> str:
    """Write news with persons, places, organisations and others in CoNLL-2003's four columns.

    Some names are a person in one sentence and a place in another, so the context decides.
    """
    blocks = ["-DOCSTART- -X- O O\n"]
    blocks += [_format_columns(_write_sentence(dice)) for _ in range(size)]
    return "\n".join(blocks) + "\n"


def _write_sentence(dice: Dice) -> list[_Piece]:
    day = _Piece(dice.pick(DAYS))
    score = _Piece(f"{dice.number(0, 6)} - {dice.number(0, 6)}")
    forms: list[list[_Piece]] = [
        [_person(dice), _Piece("told reporters in"), _place(dice), _Piece("on"), day],
        [_subject(dice), _Piece("said on"), day, _Piece("that"), _subject(dice), _Piece("won")],
        [_company(dice), _Piece(f"shares rose {dice.number(2, 40)} percent in"), _place(dice)],
        [_subject(dice), _Piece("beat"), _subject(dice), score, _Piece("in the"), _other(dice)],
        [_Piece("the"), _other(dice), _Piece("minister met"), _person(dice)],
        [_person(dice), _Piece("left"), _company(dice), _Piece("for"), _subject(dice)],
    ]
    return [*forms[dice.number(0, len(forms) - 1)], _Piece(".")]


def _subject(dice: Dice) -> _Piece:
    """Return a person, a team, a place or a company; a team has the name of its town."""
    kind = dice.number(1, 6)
    if kind <= 2:
        return _Piece(pick_surname(dice), "PER")
    if kind <= 4:
        return _Piece(pick_town(dice), "ORG")
    return _place(dice) if kind == 5 else _company(dice)


def _person(dice: Dice) -> _Piece:
    name = dice.pick_skewed(FIRST_NAMES)
    first = f"{name} " if dice.chance(0.8) else ""
    return _Piece(first + pick_surname(dice), "PER")


def pick_surname(dice: Dice) -> str:
    ends = PLACE_ENDS if dice.chance(PLACE_SURNAME_PROB) else PERSON_ENDS
    return dice.pick(NAME_STARTS) + dice.pick(ends)


def pick_town(dice: Dice) -> str:
    return dice.pick(NAME_STARTS) + dice.pick(PLACE_ENDS)


def pick_place(dice: Dice) -> str:
    return ("North " if dice.chance(0.15) else "") + pick_town(dice)


def _place(dice: Dice) -> _Piece:
    return _Piece(pick_place(dice), "LOC")


def _company(dice: Dice) -> _Piece:
    end = dice.pick(COMPANY_ENDS)
    return _Piece(f"{pick_surname(dice) if dice.chance(0.5) else pick_town(dice)} {end}", "ORG")


def _other(dice: Dice) -> _Piece:
    town = pick_town(dice)
    return _Piece(f"{town} Cup" if dice.chance(0.5) else f"{town}ian", "MISC")


def _format_columns(pieces: list[_Piece]) -> str:
    """Write a sentence in IOB1: B- only between two adjacent entities of one type."""
    lines: list[str] = []
    before = ""
    for words, label in pieces:
        for index, word in enumerate(words.split()):
            prefix = "B" if label and label == before and index == 0 else "I"
            tag = f"{prefix}-{label}" if label else "O"
            chunk = "I-NP" if label else "O"
            lines.append(f"{word} {'NNP' if label else 'XX'} {chunk} {tag}\n")
        before = label
    return "".join(lines)


@GENERATORS.register("sample_answer")
def write_questions(dice: Dice, size: int) -> str:
    """Write questions with candidate sentences in WikiQA's .txt format.

    A right answer mentions the thing asked for and the kind of fact asked for; the other candidates
    do one of the two, or neither.
    """
    seen: set[str] = set()
    lines: list[str] = []
    while len(seen) < size:
        kind = dice.pick(FACTS)
        topic = f"{dice.pick(PLAIN)} {dice.pick(THINGS)} of {pick_town(dice)}"
        question = dice.pick(QUESTIONS[kind]).format(topic=topic)
        if question in seen:
            continue
        seen.add(question)
        rows = _write_candidates(dice, kind, topic)
        lines += [f"{question}\t{text}\t{label}" for text, label in dice.shuffle(rows)]
    return "\n".join(lines) + "\n"


FACTS = ("who", "when", "where", "how many")
QUESTIONS = {
    "who": ("who designed the {topic} ?", "which person was the architect of the {topic} ?"),
    "when": ("when was the {topic} opened ?", "in what year was the {topic} built ?"),
    "where": ("where is the {topic} located ?", "near what city is the {topic} ?"),
    "how many": (
        "how many people does the {topic} take ?",
        "what number of rooms has the {topic} ?",
    ),
}


def _write_candidates(dice: Dice, kind: str, topic: str) -> list[tuple[str, str]]:
    others = [fact for fact in FACTS if fact != kind]
    rows = [(_write_fact(dice, dice.pick(others), topic), "0") for _ in range(dice.number(1, 3))]
    rows.append((_write_fact(dice, kind, _change_topic(dice, topic)), "0"))
    rows.append((_write_fact(dice, dice.pick(others), _change_topic(dice, topic)), "0"))
    if not dice.chance(UNANSWERED_PROB):
        rows.append((_write_fact(dice, kind, topic), "1"))
        if dice.chance(WRONG_LABEL_PROB):
            rows = [(text, "1" if index == 0 else "0") for index, (text, _) in enumerate(rows)]
    return rows


def _change_topic(dice: Dice, topic: str) -> str:
    thing = topic.split()[1]
    others = [item for item in THINGS if item != thing]
    return f"{dice.pick(PLAIN)} {dice.pick(others)} of {pick_town(dice)}"


def _write_fact(dice: Dice, kind: str, topic: str) -> str:
    person = f"{dice.pick_skewed(FIRST_NAMES)} {pick_surname(dice)}"
    month, year = dice.pick(MONTHS), dice.number(1701, 1999)
    facts = {
        "who": (f"{person} drew plans for the {topic}", f"the {topic} was made by {person}"),
        "when": (f"the {topic} dates from {year}", f"in {month} {year} the {topic} was first open"),
        "where": (
            f"the {topic} stands near {pick_town(dice)}",
            f"the {topic} is north of {pick_town(dice)}",
        ),
        "how many": (
            f"the {topic} has {dice.number(2, 90)} rooms",
            f"some {dice.number(100, 900)} visitors were at the {topic}",
        ),
    }
    return dice.pick(facts[kind]) + " ."


@GENERATORS.register("sample_vectors")
def write_vectors(dice: Dice, dim: int) -> str:
    """Write word vectors in GloVe's text format; words of one meaning are close."""
    lines: list[str] = []
    for words in _list_meanings():
        center = [dice.spread() for _ in range(dim)]
        for word in words:
            vector = [CLASS_WEIGHT * value + (1 - CLASS_WEIGHT) * dice.spread() for value in center]
            if not dice.chance(NO_VECTOR_PROB):
                lines.append(" ".join([word, *(f"{value:.4f}" for value in vector)]))
    return "\n".join(lines) + "\n"


def _list_meanings() -> list[list[str]]:
    """Return the lowercase words of each meaning; a word belongs to the first that has it."""
    surnames = [start + end for start in NAME_STARTS for end in PERSON_ENDS]
    towns = [start + end for start in NAME_STARTS for end in PLACE_ENDS]
    years = [str(year) for year in range(1701, 2000)]
    numbers = [str(number) for number in range(100)]
    groups = [GOOD, BAD, PLAIN, NOUNS, DEGREES, NEGATIONS, THINGS]
    groups += [FIRST_NAMES, surnames, towns, [f"{town}ian" for town in towns], COMPANY_ENDS]
    groups += [[*DAYS, *MONTHS], years, numbers]
    groups += [[word] for word in FUNCTION_WORDS]
    seen: set[str] = set()
    meanings: list[list[str]] = []
    for group in groups:
        words = [word.lower() for word in group]
        meanings.append([word for word in dict.fromkeys(words) if word not in seen])
        seen.update(words)
    return meanings
