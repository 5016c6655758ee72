"""Changes of a text that keep its meaning, and so should keep a model's answer.

A text is a list of pieces: its tokens, or its words and what is between them. A change keeps their
number, so that a tag of a token stays that of the token.

Source: Ribeiro et al. 2020 (CheckList), invariance tests; the names and rates are ours.
"""

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

Change: TypeAlias = Callable[[list[str], np.random.Generator], list[str]]

SHORTEST, WORDS_A_TYPO = 4, 10
WORD = re.compile(r"(\w+)")
NUMBER = re.compile(r"\d+([.,:]\d+)*", re.ASCII)
WOMEN = (
    "Alice Amy Anna Barbara Betty Carol Catherine Charlotte Deborah Diana Dorothy Elizabeth "
    "Emily Emma Grace Hannah Helen Jane Jennifer Jessica Julia Karen Kate Laura Linda Lisa "
    "Lucy Margaret Maria Martha Mary Michelle Nancy Olivia Patricia Rachel Rebecca Ruth Sandra "
    "Sarah Sharon Sophia Susan Victoria"
)
MEN = (
    "Adam Alan Alexander Andrew Anthony Benjamin Brian Charles Christopher Daniel David Dennis "
    "Donald Edward Eric Frank Gary George Gregory Henry Jack Jacob James Jason Jeffrey John "
    "Jonathan Joseph Joshua Kenneth Kevin Larry Mark Matthew Michael Nicholas Patrick Paul "
    "Peter Philip Richard Robert Samuel Simon Stephen Steven Thomas Timothy Walter  William"
)
NAMES = [frozenset(names.split()) for names in (WOMEN, MEN)]
"""Common English given names; each is replaced by another one of its list."""


def change_texts(texts: Sequence[str], change: Change, rng: np.random.Generator) -> list[str]:
    """Return the texts of an example, all changed in one way."""
    split = [WORD.split(text) for text in texts]  # words are at odd places
    return ["".join(pieces) for pieces in change_pieces(split, change, rng)]


def change_pieces(
    texts: Sequence[list[str]], change: Change, rng: np.random.Generator
) -> list[list[str]]:
    """Return the pieces of texts that are changed as one, so that a name is the same in all."""
    pieces = iter(change([piece for text in texts for piece in text], rng))
    return [[next(pieces) for _ in text] for text in texts]


def swap_letters(pieces: list[str], rng: np.random.Generator) -> list[str]:
    """Swap two neighbouring inner letters in a tenth of the longer words, in one at least."""
    changed = [*pieces]
    places = [idx for idx, word in enumerate(pieces) if len(word) >= SHORTEST and word.isalpha()]
    size = min(max(round(len(places) / WORDS_A_TYPO), 1), len(places))
    for idx in rng.choice(places, size, replace=False).tolist() if places else ():
        word = pieces[idx]
        inner = [at for at in range(1, len(word) - 2) if word[at] != word[at + 1]]
        if inner:
            at = inner[int(rng.integers(len(inner)))]
            changed[idx] = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return changed


def write_lower(pieces: list[str], rng: np.random.Generator) -> list[str]:
    return [piece.lower() for piece in pieces]


def write_upper(pieces: list[str], rng: np.random.Generator) -> list[str]:
    return [piece.upper() for piece in pieces]


def change_names(pieces: list[str], rng: np.random.Generator) -> list[str]:
    """Replace each given name by another one of NAMES, the same name by the same one."""
    found = {}
    for name in dict.fromkeys(pieces):
        for names in NAMES:
            if name in names:
                found[name] = str(rng.choice(sorted(names - {name})))
    return [found.get(piece, piece) for piece in pieces]


def change_numbers(pieces: list[str], rng: np.random.Generator) -> list[str]:
    """Replace each digit of the numbers by one of the other digits but 0."""
    found = {}
    for number in dict.fromkeys(filter(NUMBER.fullmatch, pieces)):
        shifts = rng.integers(1, 9, len(number)).tolist()
        found[number] = "".join(
            "123456789"[(int(sign) - 1 + shift) % 9] if sign.isdecimal() else sign
            for sign, shift in zip(number, shifts, strict=True)
        )
    return [found.get(piece, piece) for piece in pieces]


CHANGES: dict[str, Change] = {
    "typos": swap_letters,
    "lower case": write_lower,
    "upper case": write_upper,
    "names": change_names,
    "numbers": change_numbers,
}
"""The checks in their order, which their random numbers depend on."""
