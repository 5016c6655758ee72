"""Read the user's files as examples, as the `data` section of a model file says."""

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
        texts: the tokens of each text; for multiple choice of the question and each candidate.
        targets: strings by target (label, labels, tags): one label or number, labels, or tags;
            empty if they are not read.
        group: id of the question of a candidate; None elsewhere.
        raw: the texts before tokenization; empty if the file contains tokens.
        extras: by input name (features.pos) a symbol or number per token, or the row's numbers.
        stretches: offsets of the tokens, if entities are given by offsets.
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
        return self.lines[min(token, len(self.lines) - 1)]


def read_examples(path: Path, data: DataConfig, *, labelled: bool = True) -> Iterator[UserExample]:
    """Yield the examples of a file in order; each candidate is an example.

    Raises:
        DataError: the file is missing or empty, a line is malformed, or a column is missing.
    """
    tokenize = TOKENIZERS.get(data.tokens)
    for record in read_records(path, data):
        example = parse_record(record, data, path, tokenize=tokenize, labelled=labelled)
        if data.choices:
            yield from list_candidates(example, data)
        else:
            yield example


def list_candidates(example: UserExample, data: DataConfig) -> Iterator[UserExample]:
    """Yield the candidates of a row's question as examples, labelled 1 if right, else 0."""
    question, right = example.texts[0], example.targets.get(LABEL)
    for number, name in enumerate(data.choice_names, start=1):
        targets = {} if right is None else {LABEL: [str(int(right == [name]))]}
        texts = [question, example.texts[number]]
        raw = [example.raw[0], example.raw[number]]
        yield UserExample(example.lines, texts, targets, str(example.line()), raw)


def cut_texts(
    lines: list[int], raw: list[str], data: DataConfig, tokenize: Tokenizer
) -> UserExample:
    """Return an unlabelled example; the columns of a multiple-choice question are joined."""
    texts = [tokenize(text)[: data.max_tokens] for text in raw]
    if data.choices:
        number = len(data.texts)
        texts = [list(chain.from_iterable(texts[:number])), *texts[number:]]
        raw = [" ".join(raw[:number]), *raw[number:]]
    return UserExample(lines, texts, {}, raw=raw)


def parse_record(
    record: Record, data: DataConfig, path: Path, *, tokenize: Tokenizer, labelled: bool
) -> UserExample:
    """Return the example of a row or a sentence.

    Raises:
        DataError: a column is missing or unusable, or has not one tag per token.
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
    """Return an unlabelled example of a text, with the offsets of its tokens."""
    stretches = LOCATORS.get(data.tokens)(text)
    tokens = [text[place.start : place.end] for place in stretches]
    return UserExample(lines, [tokens or [EMPTY_TOKEN]], {}, stretches=stretches)


def _tag_text(
    example: UserExample, text: str, record: Record, data: DataConfig, path: Path
) -> UserExample:
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
    """Return a label as text; true and false as in JSON."""
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
