"""The natural units of a kind: what is compared, which may be more than one thing of a row."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from nlp_core.data.audit.row import Row
from nlp_core.kinds import ANSWERS, LABEL, LABELS, TAGS, Kind


class Unit(NamedTuple):
    """Texts that are compared as one.

    Attributes:
        sort: such as questions, and contexts of the same rows.
        place: of its first row.
        label: what it is labelled, as one string; None without labels.
        classes: what is counted for the distribution of labels.
        number: the value of a regression; None elsewhere.
    """

    sort: str
    place: int
    texts: tuple[str, ...]
    label: str | None = None
    classes: Sequence[str] = ()
    number: float | None = None


def list_sorts(kind: Kind) -> list[str]:
    """Return the names of a kind's units; the first one is what a table counts as an example."""
    if kind.has_passages:
        return ["questions", "contexts"]
    if kind.is_grouped:
        return ["questions", "candidates"]
    if kind.has_tags:
        return ["sentences"]
    return ["pairs" if kind.num_texts > 1 else "texts"]


def list_units(kind: Kind, rows: Iterable[Row]) -> Iterator[Unit]:
    """Yield the units of rows in their order.

    A question with candidates is a unit of its own, and each candidate with its question another.
    So is the context of questions, once for a run of questions on it.
    """
    sorts = list_sorts(kind)
    seen: set[int | str | None] = set()
    context = ""
    for row in rows:
        if kind.has_passages:
            yield _label(kind, sorts[0], row)
            if row.texts[1] != context:
                context = row.texts[1]
                yield Unit(sorts[1], row.place, (context,))
        elif kind.is_grouped:
            if row.group not in seen:
                seen.add(row.group)
                yield Unit(sorts[0], row.place, row.texts[:1])
            yield _label(kind, sorts[1], row)
        else:
            yield _label(kind, sorts[0], row)


def _label(kind: Kind, sort: str, row: Row) -> Unit:
    targets = row.targets
    given = [values for values in targets.values() if values is not None]
    if not given or len(given) < len(targets):
        return Unit(sort, row.place, row.texts)
    if kind.is_number:
        number = float(given[0][0])
        return Unit(sort, row.place, row.texts, str(number), number=number)
    if ANSWERS in targets:
        classes = ["answerable" if given[0] else "unanswerable"]
    else:
        named = (targets.get(name) for name in (LABEL, LABELS, TAGS))
        classes = next(values for values in named if values is not None)
    # Neither the order of several labels nor that of several right answers means anything.
    is_set = kind.has_several_labels or kind.has_passages
    label = "\x1e".join("\x1f".join(sorted({*item}) if is_set else item) for item in given)
    return Unit(sort, row.place, row.texts, label, classes)
