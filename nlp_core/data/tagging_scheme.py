"""Entity spans and the tagging schemes that write them: IOB1, BIO, BIOES and BILOU."""

from typing import NamedTuple

from nlp_core.errors import DataError

OUTSIDE = "O"
PREFIXES = {"IOB1": "BI", "BIO": "BI", "BIOES": "BIES", "BILOU": "BILU"}
LETTERS = "".join(sorted(set("".join(PREFIXES.values()))))
"""Those that begin a tag in any scheme."""
CLOSED = {"BIOES": ("E", "S"), "BILOU": ("L", "U")}
"""Schemes that mark where an entity ends: the letters of its last token, and of its only one."""


class Entity(NamedTuple):
    """An entity.

    Attributes:
        start: index of its first token.
        end: index after its last token.
        label: its type, such as "LOC".
    """

    start: int
    end: int
    label: str


class TagError(DataError):
    """A tag that its scheme does not allow.

    Attributes:
        index: position of the tag in its sentence.
    """

    def __init__(self, index: int, message: str) -> None:
        super().__init__(message)
        self.index = index


def read_spans(tags: list[str], scheme: str) -> list[Entity]:
    """Return the entities of a sentence, in order.

    In IOB1 an entity begins with I-, and with B- only behind another of its type; in BIO always
    with B-; in BIOES one token is S-, several are B- I- E-; BILOU has U- for S- and L- for E-.

    Raises:
        TagError: a tag has no such form, or cannot follow the one before it.
    """
    last, only = CLOSED.get(scheme, (None, None))
    spans: list[Entity] = []
    start, label = 0, ""
    for index, tag in enumerate([*tags, OUTSIDE]):
        prefix, kind = _parse_tag(index, tag, scheme)
        if not (prefix in ("I", last) and kind == label):
            _check_start(index, tag, label, scheme)
            if label:
                spans.append(Entity(start, index, label))
            start, label = index, kind
        if prefix in (last, only):
            spans.append(Entity(start, index + 1, label))
            label = ""
    return spans


def find_spans(tags: list[str]) -> list[Entity]:
    """Return the entities of predicted tags, which may break the rules of BIO and BIOES.

    An entity begins with B- or S-, or where the type is another than before, and ends with E- or S-
    or where that type ends.
    """
    spans: list[Entity] = []
    start, label = 0, ""
    for index, tag in enumerate([*tags, OUTSIDE]):
        prefix, _, kind = tag.partition("-")
        if label and (prefix in ("B", "S") or kind != label):
            spans.append(Entity(start, index, label))
            label = ""
        if kind and not label:
            start, label = index, kind
        if prefix in ("E", "S"):
            spans.append(Entity(start, index + 1, label))
            label = ""
    return spans


def write_tags(spans: list[Entity], length: int, scheme: str) -> list[str]:
    """Return the tags of a sentence's entities.

    Args:
        spans: the entities, in order, none over another.
        length: tokens of the sentence.
        scheme: "IOB1", "BIO", "BIOES" or "BILOU".
    """
    assert scheme in PREFIXES, scheme
    tags = [OUTSIDE] * length
    end_of_last, last_label = 0, ""
    for start, end, label in spans:
        tags[start:end] = [f"I-{label}"] * (end - start)
        if scheme != "IOB1" or (start, label) == (end_of_last, last_label):
            tags[start] = f"B-{label}"
        if scheme in CLOSED:
            last, only = CLOSED[scheme]
            tags[end - 1] = f"{only if end - start == 1 else last}-{label}"
        end_of_last, last_label = end, label
    return tags


def convert_tags(tags: list[str], source: str, target: str) -> list[str]:
    """Return a sentence's tags in another scheme.

    Raises:
        TagError: the tags break the rules of their own scheme.
    """
    return write_tags(read_spans(tags, source), len(tags), target)


def list_tags(labels: list[str], scheme: str) -> list[str]:
    """Return every tag that entity types can have in a scheme, sorted, with O among them."""
    tags = [f"{prefix}-{label}" for prefix in PREFIXES[scheme] for label in labels]
    return sorted([OUTSIDE, *tags])


def _parse_tag(index: int, tag: str, scheme: str) -> tuple[str, str]:
    """Return prefix and entity type of a tag; both are empty for O."""
    if tag == OUTSIDE:
        return "", ""
    prefix, _, kind = tag.partition("-")
    if not (kind and prefix in list(PREFIXES[scheme])):
        allowed = ", ".join(f"{letter}-TYPE" for letter in PREFIXES[scheme])
        raise TagError(index, f"found the tag '{tag}', expected O, {allowed}")
    return prefix, kind


def _check_start(index: int, tag: str, label: str, scheme: str) -> None:
    """Refuse an entity that begins inside, but in IOB1, or one that never ends where it must."""
    if scheme != "IOB1" and tag[0] in "IEL":
        raise TagError(index, f"the tag {tag} continues no entity of its type ({scheme})")
    if scheme in CLOSED and label:
        raise TagError(index, f"the tag {tag} cuts an open {label} entity short ({scheme})")
