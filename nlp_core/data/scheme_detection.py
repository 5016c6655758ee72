"""Detect the tagging scheme of a file: IOB1, BIO, BIOES, BILOU, or plain tags."""

import logging
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

from nlp_core.data.readers.user import UserExample
from nlp_core.data.tagging_scheme import CLOSED, LETTERS, OUTSIDE, TagError, read_spans
from nlp_core.errors import DataError
from nlp_core.kinds import TAGS

log = logging.getLogger(__name__)

RARE = 0.01
"""Share of entities of an IOB1 file that may wrongly begin with B-."""


class _Evidence:
    """What the tags of a file show.

    Attributes:
        letters: the prefixes that occur.
        first: line and tag of the first tag with a prefix (True), and without (False).
        broken: by scheme, line and message of its first broken rule.
        starts: how many entities begin with each prefix, not after another of their type.
    """

    def __init__(self, examples: Iterable[UserExample]) -> None:
        self.letters: set[str] = set()
        self.first: dict[bool, tuple[int, str]] = {}
        self.broken: dict[str, tuple[int, str]] = {}
        self.starts: Counter[str] = Counter()
        for example in examples:
            tags = example.targets[TAGS]
            for idx, (before, tag) in enumerate(pairwise([OUTSIDE, *tags])):
                if tag != OUTSIDE:
                    self._see(tag, before, example.line(idx))
            for scheme in sorted({"BIO", *CLOSED} - {*self.broken}):
                try:
                    read_spans(tags, scheme)
                except TagError as err:
                    self.broken[scheme] = (example.line(err.index), str(err))

    def _see(self, tag: str, before: str, line: int) -> None:
        is_prefixed = len(tag) > 2 and tag[1] == "-" and tag[0] in LETTERS
        self.first.setdefault(is_prefixed, (line, tag))
        if not is_prefixed:
            return
        self.letters.add(tag[0])
        if before[2:] != tag[2:]:
            self.starts[tag[0]] += 1
            if tag[0] == "B":
                found = f"the tag {tag} begins an entity after {before} (not IOB1)"
                self.broken.setdefault("IOB1", (line, found))


def detect_scheme(examples: Iterable[UserExample], path: Path) -> str:
    """Return the scheme that all tags of a file follow.

    IOB1 allows B- only after an entity of the same type, so a file whose entities begin sometimes
    with I- and sometimes with B- is mixed. A few such B- give only a warning: the training file of
    CoNLL-2003 has some.

    Raises:
        DataError: the tags follow no scheme, or are mixed; both lines are named.
    """
    found = _Evidence(examples)
    if True not in found.first:
        return "plain"
    if False in found.first:
        (line, tag), (other_line, other) = found.first[True], found.first[False]
        raise DataError(
            f"{path}: found '{tag}' on line {line} and '{other}' on line {other_line}; expected "
            "all tags with B- or I-, or none. Correct the file, or set data.scheme of the model "
            "file to plain for tags without entities."
        )
    closed = [scheme for scheme, letters in CLOSED.items() if found.letters & set(letters)]
    schemes = closed or ["BIO", "IOB1"]
    for scheme in schemes:
        if scheme not in found.broken:
            return scheme
    if not closed and found.starts["B"] <= RARE * found.starts["I"]:
        line, fault = found.broken["IOB1"]
        log.warning(
            "%s: line %d: %s; the rest is IOB1, and the file is read as IOB1", path, line, fault
        )
        return "IOB1"
    faults = [found.broken[scheme] for scheme in schemes]
    hint = "" if closed else " Or set data.scheme of the model file to IOB1, which reads both."
    raise DataError(
        f"{path}: the tags follow none of IOB1, BIO, BIOES and BILOU. "
        f"{'; '.join(f'line {line}: {fault}' for line, fault in faults)}. Correct these "
        f"lines.{hint}"
    )


def suggest_scheme(examples: Iterable[UserExample], scheme: str) -> str:
    """Return a hint if the whole file follows another scheme than the model file's."""
    try:
        found = detect_scheme(examples, Path())
    except DataError:
        return ""
    return "" if found == scheme else f", and the whole file reads as {found}: set data.scheme"
