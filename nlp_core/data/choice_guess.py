"""Guess the columns of multiple choice: a question, its candidates, and which of them is right."""

import re
from string import ascii_lowercase, ascii_uppercase
from typing import Any

from nlp_core.data.column_guess import (
    LABEL_NAMES,
    ColumnProfile,
    GuessError,
    Roles,
    choose_texts,
    find_fewest,
    find_name,
)

NUMBERED = re.compile(r"(.*?)[ _-]?(\d+|[A-Ea-e])")
STEMS = ("choice", "option", "ending", "candidate", "answer", "sol", "alternative")
RIGHT_NAMES = f"{LABEL_NAMES} answer answerkey answer_key correct right solution"


def assign_choices(columns: dict[str, list[Any]]) -> Roles:
    choices = find_choices(list(columns))
    rest = [name for name in columns if name not in choices]
    if not rest:
        raise GuessError(
            f"found the candidates {', '.join(choices)} and nothing else, expected a column of the "
            "question, and one that says which of them is right"
        )
    label = find_name(RIGHT_NAMES, rest) or find_fewest(columns, rest)
    texts = [name for name in rest if name != label]
    if not texts:
        raise GuessError(f"found no question column among {label} and {choices[0]} ...")
    doubts: dict[str, str] = {}
    question = choose_texts(
        {name: ColumnProfile(columns[name]) for name in texts}, texts, 1, doubts
    )
    seen = {str(value).strip() for value in columns[label]}
    labels = _find_labels(label, seen, choices)
    return Roles(question, label, choices=choices, choice_labels=labels, doubts=doubts)


def find_choices(names: list[str]) -> list[str]:
    families: dict[str, list[str]] = {}
    for name in names:
        found = NUMBERED.fullmatch(name.strip())
        # a bare number is the index of a column without a name
        if found and (found[1] or not found[2].isdigit()):
            families.setdefault(found[1].lower(), []).append(name)
    several = {stem: members for stem, members in families.items() if len(members) > 1}
    if not several:
        raise GuessError(
            f"found no columns of candidates among {', '.join(names)}, expected two at least with "
            "names in a header such as choice1 and choice2, and one that says which is right"
        )
    usual = next((several[stem] for stem in STEMS if stem in several), None)
    return usual or max(several.values(), key=len)


def _find_labels(label: str, seen: set[str], choices: list[str]) -> list[str] | None:
    """Return the column's name for each candidate; None if they are numbered from 0."""
    numbers = [str(number) for number in range(len(choices) + 1)]
    if seen <= set(numbers[:-1]):
        return None
    upper, lower = (list(letters[: len(choices)]) for letters in (ascii_uppercase, ascii_lowercase))
    for names in (numbers[1:], upper, lower, choices):
        if seen <= set(names):
            return names
    raise GuessError(
        f"found {', '.join(sorted(seen)[:4])} in '{label}', expected the number, the letter or the "
        f"column of one of the candidates {', '.join(choices)}"
    )
