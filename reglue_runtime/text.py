"""From a text to tokens, and from a token to the forms that a vocabulary looks up.

Training reads this module too, so training and exported models split texts alike.
"""

import re
import sys
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import NamedTuple

TURN = "<turn>"
"""The token after each turn of a dialogue's history; the only one of a first turn's history."""
EMPTY_TOKEN = "<empty>"
"""The token of an empty text, so that no example has length 0."""
SPECIAL = ("<pad>", "<unk>")
"""Names of padding and of the unknown word; a text never contains them."""
WORD_START = "\u2581"
"""Marks the beginning of a word, so that pieces there differ from those inside."""
DIGIT = re.compile(r"\d")

Substitution = tuple[str, int, str]
"""A regular expression, its flags and the replacement."""


class Offsets(NamedTuple):
    """Offsets of a token in its text, in characters; `end` is exclusive."""

    start: int
    end: int


Tokenizer = Callable[[str], list[str]]
_WIDE = re.compile("[\u3000\uff00-\uffef]+")
_SPACED = re.compile(r"[^ ]+")
_PLAIN_WORD = re.compile(
    r"""
    (?:[^\W\d_]\.){2,}                  # U.S.
    | \d+(?:[.,]\d+)+                   # 1,000.50
    | [^\W_]+?(?=n['\u2019]t\b)         # do of don't
    | n['\u2019]t\b
    | ['\u2019](?:s|re|ve|ll|d|m)\b      # Luther's, we'll
    | [^\W_]+
    | [^\w\s] | _                       # any other sign by itself
    """,
    re.IGNORECASE | re.VERBOSE,
)
_CJK = "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"
_CJK += "\U00020000-\U0003ffff"
CJK = re.compile(f"[{_CJK}]")
"""A character of Chinese or Japanese, whose words have no spaces between them."""
CJK_WORD = re.compile(f"[{_CJK}]{{1,2}}")
"""About a word of it."""
_CHARACTER = re.compile(f"[{_CJK}][\u3099\u309a]?|[^{_CJK}]+")


def split_spaces(text: str) -> list[str]:
    return [token for token in text.split(" ") if token] or [EMPTY_TOKEN]


def split_plain_words(text: str) -> list[str]:
    """Split a text into words, numbers and single signs: "16th-century" gives three.

    "isn't" gives "is", "n't"; every sign is a token of its own, also inside a word; every character
    is kept.
    """
    return [text[place.start : place.end] for place in locate_plain_words(text)] or [EMPTY_TOKEN]


@cache
def _compile_unicode_word() -> re.Pattern[str]:
    """Return the pattern of plain words in which combining marks belong to their letters."""
    marks = [chr(code) for code in range(sys.maxunicode) if chr(code).isprintable()]
    marks = [mark for mark in marks if unicodedata.category(mark).startswith("M")]
    inside = f"[^\\W_](?:[^\\W_]|[{''.join(marks)}\u200c\u200d])"
    pattern = _PLAIN_WORD.pattern.replace("[^\\W_]+", inside + "*")
    return re.compile(pattern, _PLAIN_WORD.flags)


def split_unicode_words(text: str) -> list[str]:
    """Split a text like `split_plain_words`, for scripts with vowel signs and other marks too."""
    return [text[place.start : place.end] for place in locate_unicode_words(text)] or [EMPTY_TOKEN]


def locate_unicode_words(text: str) -> list[Offsets]:
    """Return the offsets of the tokens of `split_unicode_words`; an empty text has none."""
    return [Offsets(*found.span()) for found in _compile_unicode_word().finditer(text)]


def split_characters(text: str) -> list[str]:
    """Split a text like `split_unicode_words`, with each character of CJK as a token."""
    return [text[place.start : place.end] for place in locate_characters(text)] or [EMPTY_TOKEN]


def locate_characters(text: str) -> list[Offsets]:
    """Return the offsets of the tokens of `split_characters`; an empty text has none."""
    words = locate_unicode_words(text)
    found = (_CHARACTER.finditer(text, word.start, word.end) for word in words)
    return [Offsets(*part.span()) for parts in found for part in parts]


def locate_plain_words(text: str) -> list[Offsets]:
    """Return the offsets of the tokens of `split_plain_words`; none of an empty text."""
    return [Offsets(*found.span()) for found in _PLAIN_WORD.finditer(text)]


def locate_spaces(text: str) -> list[Offsets]:
    """Return the offsets of the tokens of `split_spaces`; none of an empty text."""
    return [Offsets(*found.span()) for found in _SPACED.finditer(text)]


SPLITTERS: dict[str, Callable[[str], list[str]]] = {
    "spaces": split_spaces,
    "plain_words": split_plain_words,
    "unicode_words": split_unicode_words,
    "characters": split_characters,
}
"""Tokenizers that a bundle has."""
LOCATORS: dict[str, Callable[[str], list[Offsets]]] = {
    "spaces": locate_spaces,
    "plain_words": locate_plain_words,
    "unicode_words": locate_unicode_words,
    "characters": locate_characters,
}
"""Those of them whose tokens have offsets in the text."""


def build_rewriter(substitutions: Sequence[Substitution]) -> Callable[[str], list[str]]:
    """Return the tokenizer that applies substitutions in turn and splits at white space."""
    steps = [(re.compile(pattern, flags), into) for pattern, flags, into in substitutions]

    def split(text: str) -> list[str]:
        for pattern, into in steps:
            text = pattern.sub(into, text)
        return text.split() or [EMPTY_TOKEN]

    return split


FUNCTION_WORDS = (
    "a an the this that these those and or but nor so if than as of in on at by for from to into "
    "onto with about over under between through during before after i me my mine we us our ours "
    "you your yours he him his she her hers it its they them their theirs who whom whose which "
    "what am is are was were be been being do does did have has had will would shall should can "
    "could may might must there here then"
)
"""English articles, prepositions, conjunctions, pronouns and auxiliaries; negations are kept."""
_FUNCTION_WORD = re.compile(
    rf"(?<![\w'\u2019-])(?:{'|'.join(FUNCTION_WORDS.split())})(?![\w'\u2019-])", re.IGNORECASE
)

STEPS: dict[str, Callable[[str], str]] = {
    "nfc": partial(unicodedata.normalize, "NFC"),
    "nfkc": partial(unicodedata.normalize, "NFKC"),
    "width": lambda text: _WIDE.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text),
    "content": lambda text: _FUNCTION_WORD.sub(" ", text),
}
"""What a text goes through before it is split: Unicode composition, compatibility composition,
only full-width letters made narrow and half-width katakana made wide, or stop words dropped."""


def read_steps(name: str) -> tuple[list[str], str]:
    """Return the steps and the last part of a tokenizer's name, such as nfkc+words."""
    *steps, tokenizer = name.split("+")
    return steps, tokenizer


def normalize(text: str, steps: Sequence[str]) -> str:
    for step in steps:
        text = STEPS[step](text)
    return text


def add_steps(steps: Sequence[str], tokenize: Callable[[str], list[str]]) -> Tokenizer:
    """Return a tokenizer of the text that steps give."""
    return lambda text: tokenize(normalize(text, steps))


def zero_digits(word: str) -> str:
    return DIGIT.sub("0", word)


def mark_word(word: str, *, lowercase: bool) -> str:
    return WORD_START + (word.lower() if lowercase else word)


CASES = ("lower", "capitalised", "upper", "mixed", "digits", "with_digits", "other")
"""Cases of a word: a script without capitals is lower; other has no letter and no digit."""


def name_case(word: str) -> str:
    """Return one of CASES, or nothing of nothing; a single capital letter is capitalised."""
    if not word:
        return ""
    letters = "".join(letter for letter in word if letter.isalpha())
    has_digits = any(letter.isdigit() for letter in word)
    if not letters:
        return "digits" if has_digits else "other"
    if has_digits:
        return "with_digits"
    if letters == letters.lower():
        return "lower"
    if letters[0].isupper() and letters[1:] == letters[1:].lower():
        return "capitalised"
    return "upper" if letters == letters.upper() else "mixed"


FORMS: dict[str, Callable[[str], str]] = {
    "plain": lambda word: word,
    "lower": lambda word: word.lower(),
    "zero": zero_digits,
    "lower_zero": lambda word: zero_digits(word.lower()),
    "case": name_case,
}
"""Forms of a word that a vocabulary looks up, in this order."""


def join_turns(turns: Sequence[Sequence[str]]) -> list[str]:
    """Return the tokens of the earlier turns of a dialogue, each with a TURN after it."""
    return [token for turn in turns for token in (*turn, TURN)] or [TURN]


def split_turns(text: str) -> list[str]:
    """Return the turns or sentences of a text: its lines, or what is between TURNs."""
    parts = text.split(TURN) if TURN in text else text.split("\n")
    return [part for part in parts if part.strip()]
