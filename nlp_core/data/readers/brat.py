"""Read a folder of brat: texts (.txt), each with the file of its entities (.ann)."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from nlp_core.data.readers.lines import Line, read_lines, refuse
from nlp_core.errors import DataError

TEXT_SUFFIX, SUFFIX = ".txt", ".ann"
_refuse = partial(refuse, advice="Correct the line or leave it out.")
ENTITY = re.compile(r"T\S*\t(\S+) (\d{1,12} \d{1,12}(?:;\d{1,12} \d{1,12})*)\t(.*)")


class BratLine(NamedTuple):
    """A line of a text that is not blank; offsets of its entities are those in the line."""

    path: Path
    number: int
    cells: dict[str, Any]  # Any: texts, and lists of entities


class _Place(NamedTuple):
    """An entity by its offsets in the whole text."""

    start: int
    end: int
    label: str
    number: int


def list_texts(folder: Path) -> list[Path]:
    """Return the texts below a folder that are not empty, sorted."""
    found = (path for path in folder.rglob(f"*{TEXT_SUFFIX}") if not path.name.startswith("."))
    return sorted(path for path in found if path.is_file() and path.stat().st_size)


def read_brat(folder: Path) -> Iterator[BratLine]:
    """Yield the lines of all texts: the columns file, text and, with an .ann file, entities.

    Relations, events, attributes and notes are not read.

    Raises:
        DataError: there is no text, or an entity is malformed, has several pieces, is in two lines
            of the text, or is not the text at its offsets.
    """
    texts = list_texts(folder)
    if not texts:
        raise DataError(f"{folder}: found no {TEXT_SUFFIX} file, expected a folder of brat.")
    for path in texts:
        lines = list(read_lines(path))
        notes = path.with_suffix(SUFFIX)
        places = _read_entities(notes, "".join(line.text + line.end for line in lines))
        yield from _cut(path.relative_to(folder), path, lines, places)


def _read_entities(path: Path, text: str) -> list[_Place] | None:
    """Return the entities in order; None without a file of them."""
    if not path.is_file():
        return None
    places: list[_Place] = []
    for line in read_lines(path) if path.stat().st_size else ():
        if not line.text.startswith("T"):
            continue
        found = ENTITY.fullmatch(line.text)
        if found is None:
            raise _refuse(path, line.number, f"found {line.text!r:.80}, expected T1, a tab, LABEL "
                          "START END, a tab, and the text")  # fmt: skip
        label, offsets, shown = found.groups()
        if ";" in offsets:
            raise _refuse(path, line.number, f"found '{shown}' in several pieces, expected one")
        start, end = map(int, offsets.split())
        if start >= end or _flatten(text[start:end]) != _flatten(shown):
            there = f"where the text has '{_flatten(text[start:end]):.80}'"
            raise _refuse(
                path,
                line.number,
                f"found '{shown:.80}' at {offsets}, {there}{_suggest(text, start, shown)}",
            )
        places.append(_Place(start, end, label, line.number))
    return sorted(places)


def _flatten(text: str) -> str:
    return " ".join(text.split())


def _suggest(text: str, start: int, shown: str) -> str:
    for more in (-1, 1):
        if start + more >= 0 and text[start + more :].startswith(shown):
            return f"; the offsets seem to be 1 too {'large' if more < 0 else 'small'}"
    return ""


def _cut(
    name: Path, path: Path, lines: list[Line], places: list[_Place] | None
) -> Iterator[BratLine]:
    begin = 0
    left = [] if places is None else places
    for line in lines:
        end = begin + len(line.text)
        inside = [place for place in left if place.start < end]
        left = left[len(inside) :]
        for place in inside:
            if place.end > end or place.start < begin:
                found = "found an entity in two lines of the text, expected one in one line"
                raise _refuse(path.with_suffix(SUFFIX), place.number, found)
        if line.text.strip():
            cells: dict[str, Any] = {"file": name.as_posix(), "text": line.text}
            if places is not None:
                cells["entities"] = [
                    {"start": place.start - begin, "end": place.end - begin, "label": place.label}
                    for place in inside
                ]
            yield BratLine(path, line.number, cells)
        begin = end + len(line.end)
