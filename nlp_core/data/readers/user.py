"""Read one's own files as examples: what the `data` section of a model file says of each column."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from nlp_core.config.reader import NUMBERS, SYMBOLS
from nlp_core.config.user_data import DataConfig
from nlp_core.data.readers.entities import EntityError, find_tokens, parse_entities
from nlp_core.data.readers.records import Record, read_records, refuse
from nlp_core.data.tagging_scheme import write_tags
from nlp_core.data.tokenization import LOCATORS, TOKENIZERS, Tokenizer
from nlp_core.kinds import LABEL, LABELS, TAGS
from reglue_runtime.text import EMPTY_TOKEN, Stretch

READ_SCHEME = "BIO"
"""Of the tags that entities get which stand as stretches of a text."""


class UserExample(NamedTuple):
    """One example of a file.

    Attributes:
        lines: line of the row; of each token in a column file.
        texts: the tokens of each text; of a row with all candidates of a question those of the
            question and of each candidate.
        targets: by target (label, labels, tags) its words: one label or number as a text, labels,
            or tags; empty when they are not read.
        group: what names the question of a candidate; None elsewhere.
        raw: the texts before they were cut into tokens; none where the file holds tokens.
        extras: by what a model's inputs call it (features.pos) a symbol or a number for each token,
            or the numbers of the row.
        stretches: where the tokens stand in their text, if entities are stretches of it.
        borders: how entities fit the tokens, see TaggedStretches.
    """

    lines: list[int]
    texts: list[list[str]]
    targets: dict[str, list[str]]
    group: str | None = None
    raw: Sequence[str] = ()
    extras: Mapping[str, list[Any]] = MappingProxyType({})
    stretches: Sequence[Stretch] | None = None
    borders: Mapping[str, int] = MappingProxyType({})

    def line(self, token: int = 0) -> int:
        """Return the line of a token, or of the example."""
        return self.lines[min(token, len(self.lines) - 1)]


def read_examples(path: Path, data: DataConfig, *, labelled: bool = True) -> Iterator[UserExample]:
    """Yield the examples of a file in its order, each candidate as one of its own.

    Args:
        path: the file.
        data: what stands where.
        labelled: whether the targets are read, and must be there.

    Raises:
        DataError: the file is missing or empty, a line is malformed, or a column is not there.
    """
    tokenize = TOKENIZERS.get(data.tokens)
    for record in read_records(path, data):
        example = parse_record(record, data, path, tokenize=tokenize, labelled=labelled)
        if data.choices:
            yield from list_candidates(example, data)
        else:
            yield example


def list_candidates(example: UserExample, data: DataConfig) -> Iterator[UserExample]:
    """Yield the candidates of a row's question as examples, whose label says which one is right."""
    question, right = example.texts[0], example.targets.get(LABEL)
    for number, name in enumerate(data.choice_names, start=1):
        targets = {} if right is None else {LABEL: [str(int(right == [name]))]}
        texts = [question, example.texts[number]]
        raw = [example.raw[0], example.raw[number]]
        yield UserExample(example.lines, texts, targets, str(example.line()), raw)


def cut_texts(
    lines: list[int], raw: list[str], data: DataConfig, tokenize: Tokenizer
) -> UserExample:
    """Return an example of texts as they stand in a row, without targets.

    A question that stands in two columns is read as one.
    """
    texts = [tokenize(text)[: data.max_tokens] for text in raw]
    if data.choices:
        number = len(data.texts)
        texts = [list(chain.from_iterable(texts[:number])), *texts[number:]]
        raw = [" ".join(raw[:number]), *raw[number:]]
    return UserExample(lines, texts, {}, raw=raw)


def parse_record(
    record: Record, data: DataConfig, path: Path, *, tokenize: Tokenizer, labelled: bool
) -> UserExample:
    """Return the example that a row or a sentence holds.

    Raises:
        DataError: a column is not there, holds nothing of use, or has not a tag for each token.
    """
    line = record.lines[0]
    cells = [record.get(column, path) for column in data.input_columns]
    if data.has_spans:
        text = _read_text(cells[0], line, data.texts[0], path)
        found = locate_text(record.lines, text, data)
        if labelled:
            found = _tag_text(found, text, record, data, path)
    elif data.kind.has_tags:
        found = UserExample(record.lines, [_split_list(cells[0], line, data.texts[0], path)], {})
    else:
        named = zip(cells, data.input_columns, strict=True)
        raw = [_read_text(cell, line, name, path) for cell, name in named]
        found = cut_texts(record.lines, raw, data, tokenize)
    targets = _read_targets(record, data, path, found) if labelled else {}
    group = None
    if data.kind.is_grouped and not data.choices:
        group = str(cells[0] if data.group is None else record.get(data.group, path))
    extras = {
        name: _read_extra(name, record.get(column, path), column, record, len(found.texts[0]), path)
        for name, column in data.extras.items()
    }
    return found._replace(targets=targets, group=group, extras=extras)


def locate_text(lines: list[int], text: str, data: DataConfig) -> UserExample:
    """Return an example of a text whose tokens have their places in it."""
    stretches = LOCATORS.get(data.tokens)(text)
    tokens = [text[place.start : place.end] for place in stretches]
    return UserExample(lines, [tokens or [EMPTY_TOKEN]], {}, stretches=stretches)


def _tag_text(
    example: UserExample, text: str, record: Record, data: DataConfig, path: Path
) -> UserExample:
    """Return an example with the tags of the entities in its text."""
    assert data.tag_column is not None
    assert example.stretches is not None
    try:
        entities = parse_entities(record.get(data.tag_column, path))
        found = find_tokens(text, example.stretches, entities)
    except EntityError as err:
        raise refuse(path, record.lines[0], f"'{data.tag_column}': {err}") from err
    tags = write_tags(found.spans, len(example.texts[0]), READ_SCHEME)
    return example._replace(targets={TAGS: tags}, borders=found.borders)


def _read_extra(
    name: str, cell: Any, column: str, record: Record, num_tokens: int, path: Path
) -> list[Any]:  # Any: a cell of JSON; symbols or numbers
    line = record.lines[0]
    is_row = name.startswith(NUMBERS)
    single = isinstance(cell, int | float) and not isinstance(cell, bool)
    parts = [cell] if is_row and single else _split_list(cell, line, column, path)
    if not is_row and len(parts) != num_tokens:
        found = f"found {num_tokens} tokens and {len(parts)} values in '{column}', expected one for"
        raise refuse(path, line, f"{found} each token")
    if name.startswith(SYMBOLS):
        return parts
    values = [_read_number(part) for part in parts]
    for number, value in enumerate(values):
        if not math.isfinite(value):
            found = f"found '{parts[number]}' in '{column}', expected a number"
            raise refuse(path, record.lines[min(number, len(record.lines) - 1)], found)
    return values


def _read_number(part: object) -> float:
    try:
        return float(str(part))
    except ValueError:
        return math.nan


def _read_targets(
    record: Record, data: DataConfig, path: Path, example: UserExample
) -> dict[str, list[str]]:
    line, num_tokens = record.lines[0], len(example.texts[0])
    targets: dict[str, list[str]] = {}
    if data.kind.has_label:
        cell = record.get(data.label, path)
        if data.kind.has_several_labels:
            targets[LABELS] = _read_labels(cell, data, line, path)
        else:
            targets[LABEL] = [_read_label(cell, line, data.label, path)]
            if data.choices and targets[LABEL][0] not in data.choice_names:
                found = f"found '{targets[LABEL][0]}' in '{data.label}', expected one of"
                raise refuse(path, line, f"{found} {', '.join(data.choice_names)}")
    if data.tag_column and not data.has_spans:
        tags = _split_list(record.get(data.tag_column, path), line, data.tag_column, path)
        if len(tags) != num_tokens:
            found = f"found {num_tokens} tokens in '{data.texts[0]}' and {len(tags)} tags in"
            raise refuse(path, line, f"{found} '{data.tag_column}', expected a tag for each token")
        targets[TAGS] = tags
    return targets | example.targets


def _read_text(cell: Any, line: int, name: str, path: Path) -> str:  # Any: a cell of JSON
    if isinstance(cell, str):
        return cell
    if isinstance(cell, list) and all(isinstance(item, str) for item in cell):
        return " ".join(cell)
    if isinstance(cell, int | float) and not isinstance(cell, bool):
        return str(cell)
    if cell is None:
        return ""
    raise refuse(path, line, f"found a {type(cell).__name__} in '{name}', expected a text")


def name_label(cell: Any) -> str:  # Any: a cell of JSON
    """Return what a label is called: true and false as JSON writes them."""
    return str(cell).lower() if isinstance(cell, bool) else str(cell).strip()


def _read_label(cell: Any, line: int, name: str, path: Path) -> str:  # Any: a cell of JSON
    text = "" if cell is None or isinstance(cell, dict | list) else name_label(cell)
    if not text:
        raise refuse(path, line, f"found {cell!r} in '{name}', expected a label")
    return text


def _read_labels(cell: Any, data: DataConfig, line: int, path: Path) -> list[str]:  # Any: as above
    if isinstance(cell, str) and data.label_separator is not None:
        cell = [part for part in cell.split(data.label_separator) if part.strip()]
    if not isinstance(cell, list):
        found = f"found {cell!r} in '{data.label}', expected a list of labels"
        raise refuse(path, line, f"{found}, or data.label_separator")
    labels = [_read_label(item, line, data.label, path) for item in cell]
    if len(set(labels)) != len(labels):
        raise refuse(path, line, f"found {labels} in '{data.label}', expected each label once")
    return labels


def _split_list(cell: Any, line: int, name: str, path: Path) -> list[str]:  # Any: as above
    parts = cell.split() if isinstance(cell, str) else cell
    if not isinstance(parts, list) or not parts:
        raise refuse(path, line, f"found {cell!r} in '{name}', expected a list, or words by spaces")
    return [str(part) for part in parts]
