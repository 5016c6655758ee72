"""Entity spans and the tagging schemes that write them: IOB1, BIO, BIOES and BILOU."""

from collections.abc import Collection

from nlp_core.errors import DataError
from reglue_runtime.decoding import Span

OUTSIDE = "O"
PREFIXES = {"IOB1": "BI", "BIO": "BI", "BIOES": "BIES", "BILOU": "BILU"}
LETTERS = "".join(sorted(set("".join(PREFIXES.values()))))
"""All prefixes of tags."""
CLOSED = {"BIOES": ("E", "S"), "BILOU": ("L", "U")}
"""Schemes that mark the end of an entity: the prefix of its last token, and of a single one."""


class TagError(DataError):
    """A tag that its scheme does not allow; `index` is its position in the sentence."""

    def __init__(self, index: int, message: str) -> None:
        super().__init__(message)
        self.index = index


def read_spans(tags: list[str], scheme: str) -> list[Span]:
    """Return the entities of a sentence, in order.

    In IOB1 an entity begins with I-, and with B- only after another of its type; in BIO always with
    B-; in BIOES a single token is S-, several are B- I- E-; BILOU has U- for S- and L- for E-.

    Raises:
        TagError: a tag is malformed, or cannot follow the one before it.
    """
    last, only = CLOSED.get(scheme, (None, None))
    spans: list[Span] = []
    start, label = 0, ""
    for index, tag in enumerate([*tags, OUTSIDE]):
        prefix, kind = _parse_tag(index, tag, scheme)
        if not (prefix in ("I", last) and kind == label):
            if index == len(tags) and label and last:
                fault = f"the sentence ends inside the entity of {tags[-1]} ({scheme})"
                raise TagError(index - 1, fault)
            _check_start(index, tag, label, scheme)
            if label:
                spans.append(Span(start, index, label))
            start, label = index, kind
        if prefix in (last, only):
            spans.append(Span(start, index + 1, label))
            label = ""
    return spans


def write_tags(spans: list[Span], length: int, scheme: str) -> list[str]:
    """Return the tags of a sentence of `length` tokens; spans are in order, without overlap."""
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
    """Return a sentence's tags in another scheme; TagError if they break the rules of theirs."""
    return write_tags(read_spans(tags, source), len(tags), target)


def is_bare(tags: Collection[str]) -> bool:
    """Return whether tags mark entities without a type: O, I, perhaps B, and ends of entities."""
    return {OUTSIDE, "I"} <= {*tags} <= {OUTSIDE, *LETTERS}


def add_type(tags: list[str], entity_type: str) -> list[str]:
    """Return the tags of a sentence with a type after each bare letter."""
    return [f"{tag}-{entity_type}" if tag in [*LETTERS] else tag for tag in tags]


def list_tags(labels: list[str], scheme: str) -> list[str]:
    """Return every tag of the entity types in a scheme, sorted, with O."""
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
    """Raise if a tag begins an entity inside one, except in IOB1, or leaves one open."""
    if scheme != "IOB1" and tag[0] in "IEL":
        raise TagError(index, f"the tag {tag} continues no entity of its type ({scheme})")
    if scheme in CLOSED and label:
        raise TagError(index, f"the tag {tag} cuts an open {label} entity short ({scheme})")
