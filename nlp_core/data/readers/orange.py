"""Read the header of Orange's tables: a line of names, one of types and one of roles.

Source: Orange Data Mining, Loading your Data: the three-line header of native .tab files.
"""

import re
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

from nlp_core.data.readers.lines import read_lines

Row = tuple[int, list[str]]

TYPE = re.compile(r"c|continuous|d|discrete|s|string|t|time|basket")
STRING = ("s", "string")
VALUES = re.compile(r"\S+( \S+)+")
"""The values of a discrete column in place of its type; one with a space has it as `\\ `."""
ROLE = re.compile(r"(c|class|m|meta|i|ignore|w|weight|\w+=\S+)( \w+=\S+)*|")
LABEL_ROLE, TEXT_ROLE = re.compile(r"(c|class)( .*)?"), "include=True"


def is_header(types: list[str], roles: list[str]) -> bool:
    """Return whether the second and third line of a table are types and roles."""
    named = [form for form in types if TYPE.fullmatch(form)]
    listed = [form for form in types if VALUES.fullmatch(form)]
    is_typed = bool(named) and len(named) + len(listed) == len(types)
    return is_typed and all(map(ROLE.fullmatch, roles))


def drop_types(rows: Iterator[Row]) -> Iterator[Row]:
    """Yield the rows without the lines of types and roles, if there are such."""
    head = list(islice(rows, 3))
    if len(head) > 2 and is_header(head[1][1], head[2][1]):
        head = head[:1]
    yield from chain(head, rows)


def has_types(path: Path) -> bool:
    lines = _read_header(path)
    return len(lines) > 2 and is_header(*lines[1:])


def find_used(path: Path) -> list[str]:
    """Return the columns of the label and the text, if a table says which column is its class."""
    if not has_types(path):
        return []
    columns = list(zip(*_read_header(path), strict=False))
    labels = [name for name, _, role in columns if LABEL_ROLE.fullmatch(role)]
    texts = [name for name, _, role in columns if TEXT_ROLE in role]
    strings = [name for name, form, _ in columns if form in STRING]
    return [*labels, *(texts or strings)] if labels else []


def _read_header(path: Path) -> list[list[str]]:
    return [line.text.split("\t") for line in islice(read_lines(path), 3)]
