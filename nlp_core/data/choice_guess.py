"""Guess which columns of a table are the candidates of a question, and which marks the right."""

import re
from typing import Any

from nlp_core.data.column_guess import LABEL_NAMES, GuessError, Look, Roles, choose_texts, find_name

NUMBERED = re.compile(r"(.*?)[ _-]?(\d+|[A-Ea-e])")
STEMS = ("choice", "option", "ending", "candidate", "answer", "sol", "alternative")
RIGHT_NAMES = f"{LABEL_NAMES} answer answerkey answer_key correct right solution"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def assign_choices(columns: dict[str, list[Any]]) -> Roles:
    """Return the columns of the candidates, of the question and of the right candidate.

    Raises:
        GuessError: no columns have numbered names, or none marks the right candidate.
    """
    choices = _find_choices(list(columns))
    looks = {name: Look(values) for name, values in columns.items()}
    rest = [name for name in columns if name not in choices]
    if not rest:
        raise GuessError(
            f"found the candidates {', '.join(choices)} and nothing else, expected a column of the "
            "question, and one that says which of them is right"
        )
    label = find_name(RIGHT_NAMES, rest) or min(rest, key=lambda name: looks[name].distinct)
    texts = [name for name in rest if name != label]
    if not texts:
        raise GuessError(f"found no question column among {label} and {choices[0]} ...")
    doubts: dict[str, str] = {}
    question = choose_texts(looks, texts, 1, doubts)
    seen = {str(value).strip() for value in columns[label]}
    roles = Roles(question, label, doubts=doubts, choices=choices)
    roles.choice_labels = _find_labels(label, seen, choices)
    return roles


def _find_choices(names: list[str]) -> list[str]:
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
    usual = [stem for stem in STEMS if stem in several]
    return several[usual[0]] if usual else max(several.values(), key=len)


def _find_labels(label: str, seen: set[str], choices: list[str]) -> list[str] | None:
    """Return the column's name for each candidate; None for 0, 1, 2 ..."""
    from_zero = [str(number) for number in range(len(choices))]
    from_one = [str(number + 1) for number in range(len(choices))]
    if seen <= set(from_zero):
        return None
    upper = list(LETTERS[: len(choices)])
    for names in (from_one, upper, [letter.lower() for letter in upper], choices):
        if seen <= set(names):
            return names
    raise GuessError(
        f"found {', '.join(sorted(seen)[:4])} in '{label}', expected the number, the letter or the "
        f"column of one of the candidates {', '.join(choices)}"
    )
