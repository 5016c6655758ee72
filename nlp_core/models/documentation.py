"""Documentation of a registered block or head, read from its source.

Formula and texts come from its docstring; options with types, defaults and ranges come from its
constructor, through the model that checks model files.
"""

import inspect
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from nlp_core.blocks.base import Block
from nlp_core.blocks.option import options_model
from nlp_core.heads.base import Head
from nlp_core.models.shapes import RANK_NAMES

SECTION = re.compile(r"^(Args|Shape|Returns|Raises|Source|Note):\s*(.*)$")
BOUNDS = {
    "minimum": "at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "exclusiveMaximum": "below",
    "pattern": "of the form",
}
ENTRY = re.compile(r"^    (\w+): (.*)$")


class Option(NamedTuple):
    """An option of a model file."""

    name: str
    form: str
    """Type and range of its value, in words."""
    default: str | None
    """As JSON; None: required."""
    text: str


class Documentation(NamedTuple):
    """A block or a head in words."""

    summary: str
    details: list[str]
    """The paragraphs after the first."""
    inputs: str
    serves: list[str]
    """Kinds of task of a head."""
    shape: str
    options: list[Option]
    source: str
    note: str


def document(owner: type[Block] | type[Head]) -> Documentation:
    paragraphs, sections = parse_docstring(inspect.getdoc(owner) or "")
    texts: dict[str, str] = {}
    for base in reversed(owner.__mro__):  # shared options are documented in a base class
        shared = parse_docstring(inspect.cleandoc(vars(base).get("__doc__") or ""))[1]
        texts |= _parse_entries(shared.get("Args", []))
    plain: type = owner  # mypy takes a union of classes for something without a hash
    schema = options_model(plain).model_json_schema()
    required = schema.get("required", [])
    options = [
        Option(
            name,
            describe_form(form, schema.get("$defs", {})),
            None if name in required else json.dumps(form.get("default")),
            texts.get(name, ""),
        )
        for name, form in schema.get("properties", {}).items()
    ]
    inputs = [_join_or([RANK_NAMES[rank] for rank in allowed]) for allowed in owner.ranks]
    if issubclass(owner, Block) and owner.variadic:
        inputs.append("any number of them")
    return Documentation(
        summary=paragraphs[0],
        details=paragraphs[1:],
        inputs=", ".join(inputs),
        serves=sorted(owner.kinds) if issubclass(owner, Head) else [],
        shape=_join(sections.get("Shape", [])),
        options=options,
        source=_join(sections.get("Source", [])),
        note=_join(sections.get("Note", [])),
    )


def parse_docstring(text: str) -> tuple[list[str], dict[str, list[str]]]:
    """Return the paragraphs of a docstring, each one line, and the lines of each section."""
    sections: dict[str, list[str]] = {}
    prose: list[str] = []
    current = prose
    for line in text.splitlines():
        head = SECTION.match(line)
        if head:
            current = sections.setdefault(head.group(1), [])
            line = head.group(2)
        elif line and not line.startswith(" "):
            current = prose
        current.append(line)
    paragraphs = [_join(part.splitlines()) for part in "\n".join(prose).split("\n\n")]
    return [part for part in paragraphs if part], sections


def describe_form(form: Mapping[str, Any], shared: Mapping[str, Any]) -> str:
    """Return a JSON schema in words: `integer, at least 1`, `max or mean`, `list of numbers`.

    `shared` holds the schemas that it refers to.
    """
    if "$ref" in form:
        form = shared[form["$ref"].rpartition("/")[2]]
    if "anyOf" in form or "oneOf" in form:
        choices = form.get("anyOf", form.get("oneOf", []))
        return " or ".join(describe_form(item, shared) for item in choices)
    if "enum" in form or "const" in form:
        return _join_or([str(value) for value in form.get("enum", [form.get("const")])])
    kind = str(form.get("type", "any value"))
    if kind == "object" and "properties" in form:
        fields = form["properties"].items()
        return f"{{{'; '.join(f'{key}: {describe_form(item, shared)}' for key, item in fields)}}}"
    if kind == "array":
        items = form.get("items", {})
        length = f", at least {form['minItems']} of them" if "minItems" in form else ""
        return f"list of ({describe_form(items, shared)}){length}" if items else f"list{length}"
    bounds = [f"{word} {form[key]}" for key, word in BOUNDS.items() if key in form]
    return ", ".join([{"boolean": "true or false", "string": "text"}.get(kind, kind), *bounds])


def _parse_entries(lines: Sequence[str]) -> dict[str, str]:
    """Return the texts of a section `Args` by name."""
    entries: dict[str, list[str]] = {}
    current: list[str] = []
    for line in lines:
        entry = ENTRY.match(line)
        if entry:
            current = entries.setdefault(entry.group(1), [])
            line = entry.group(2)
        current.append(line)
    return {name: _join(texts) for name, texts in entries.items()}


def _join(lines: Sequence[str]) -> str:
    return " ".join(line.strip() for line in lines if line.strip())


def _join_or(words: Sequence[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
