"""Read the user's files as examples, as the `data` section of a model file says."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from nlp_core.config.column import NUMBERS, SYMBOLS, TOKEN_VECTORS
from nlp_core.config.user_data import DataConfig
from nlp_core.data.readers.entities import EntityError, TaggedSpans, find_tokens, parse_entities
from nlp_core.data.readers.example import NOTHING
from nlp_core.data.readers.lines import parse_number, write_point
from nlp_core.data.readers.list_cell import parse_list
from nlp_core.data.readers.records import FileRecord, name_label, read_records
from nlp_core.data.tagging_scheme import add_type, write_tags
from nlp_core.data.tokenization import LOCATORS, TOKENIZERS, Tokenizer
from nlp_core.errors import plural
from nlp_core.kinds import LABEL, LABELS, OUTPUT, SENTENCES, TAGS, TREE
from reglue_runtime.text import EMPTY_TOKEN, TURN, Offsets, join_turns, split_turns
from reglue_runtime.tree import TreeError, list_constituents, list_leaves

RIGHT = "1"
"""The label of a passage in a file without labels."""
READ_SCHEME = "BIO"
"""Tagging scheme of entities that are given by offsets."""


class UserExample(NamedTuple):
    """One example of a file.

    Attributes:
        lines: line of the row; of each token in a column file.
        texts: the tokens of each text; for multiple choice of the question and each candidate.
        targets: strings by target (label, labels, tags, tree, output); empty if they are not read.
        group: id of the question of a candidate; None elsewhere.
        raw: the texts before tokenization; empty if the file contains tokens.
        extras: by input name (features.pos) a symbol or number per token, or the row's numbers.
        offsets: offsets of the tokens, if entities are given by offsets.
        borders: how entities fit the tokens, see TaggedSpans.
    """

    lines: list[int]
    texts: list[list[str]]
    targets: dict[str, list[str]]
    group: str | None = None
    raw: Sequence[str] = ()
    extras: Mapping[str, list[Any]] = NOTHING
    offsets: Sequence[Offsets] | None = None
    borders: Mapping[str, int] = NOTHING

    def line(self, token: int = 0) -> int:
        return self.lines[min(token, len(self.lines) - 1)]


def read_examples(path: Path, data: DataConfig, *, labelled: bool = True) -> Iterator[UserExample]:
    """Yield the examples of a file in order; each candidate is an example.

    Raises:
        DataError: the file is missing or empty, a line is malformed, or a column is missing.
    """
    tokenize = TOKENIZERS.get(data.tokens)
    for record in read_records(path, data):
        if labelled and not record.matches(data.where):
            continue
        example = parse_record(record, data, tokenize=tokenize, labelled=labelled)
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
    record: FileRecord, data: DataConfig, *, tokenize: Tokenizer, labelled: bool
) -> UserExample:
    """Return the example of a row or a sentence.

    Raises:
        DataError: a column is missing or unusable, or has not one tag per token.
    """
    columns = data.input_columns
    if data.has_spans:
        found = locate_text(record.lines, record.get_text(columns[0]), data)
    elif data.kind.has_sentences:
        found = join_sentences(record.lines, _read_sentences(record, columns[0], tokenize))
    elif data.kind.reads_tokens:
        words = [record.get_list(columns[0])]
        if data.kind.has_history:
            words.append(_read_history(record, columns[1], tokenize))
        found = UserExample(record.lines, words, {})
    else:
        texts = [record.get_text(column) for column in columns]
        found = cut_texts(record.lines, texts, data, tokenize)
    if labelled:
        found = _add_targets(found, record, data)
    if data.kind.is_grouped and not data.choices:
        found = found._replace(group=_read_group(record, data))
    size = len(found.texts[0])
    extras = {name: _read_extra(record, name, column, size) for name, column in data.extras.items()}
    return found._replace(extras={**found.extras, **extras})


def locate_text(lines: list[int], text: str, data: DataConfig) -> UserExample:
    """Return an unlabelled example of a text, with the offsets of its tokens."""
    offsets = LOCATORS.get(data.tokens)(text)
    tokens = [text[place.start : place.end] for place in offsets]
    return UserExample(lines, [tokens or [EMPTY_TOKEN]], {}, offsets=offsets)


def join_sentences(lines: list[int], sentences: Sequence[list[str]]) -> UserExample:
    """Return an unlabelled document of the tokens of its sentences."""
    words, sizes = [*chain.from_iterable(sentences)], [*map(len, sentences)]
    return UserExample(lines, [words], {}, extras={SENTENCES: sizes})


def _read_sentences(record: FileRecord, column: str, tokenize: Tokenizer) -> list[list[str]]:
    """Return the tokens of the sentences: of a list of texts or tokens, or of a text in lines."""
    cell = record.get_items(column)
    parts = split_turns(cell) if isinstance(cell, str) else cell
    is_list = isinstance(parts, list) and all(isinstance(part, str | list) for part in parts)
    if not parts or not is_list:
        raise record.refuse(f"found {cell!r} in '{column}', expected a list of sentences")
    return [
        tokenize(part) if isinstance(part, str) else [*map(str, part)] or [EMPTY_TOKEN]
        for part in parts
    ]


def _read_sentence_labels(example: UserExample, record: FileRecord, column: str) -> list[str]:
    cell, size = record.get_items(column), len(example.extras[SENTENCES])
    parts = split_turns(cell) if isinstance(cell, str) else cell
    if isinstance(cell, str) and len(parts) != size:
        parts = cell.split()
    if not isinstance(parts, list) or len(parts) != size:
        found = f"found {plural(size, 'sentence')} and {cell!r} in '{column}'"
        raise record.refuse(f"{found}, expected a label for each sentence")
    return [_read_label(record, column, part) for part in parts]


def _read_extra(
    record: FileRecord, name: str, column: str, num_tokens: int
) -> list[Any]:  # Any: symbols or numbers
    is_row, cell = name.startswith(NUMBERS), record.get(column)
    if name.startswith(TOKEN_VECTORS):
        return _read_vectors(record, column, num_tokens)
    single = isinstance(cell, int | float) and not isinstance(cell, bool)
    parts = [cell] if is_row and single else record.get_list(column)
    if not is_row and len(parts) != num_tokens:
        found = f"found {plural(num_tokens, 'token')} and {len(parts)} values in '{column}'"
        raise record.refuse(f"{found}, expected one for each token")
    if name.startswith(SYMBOLS):
        return parts
    values = [parse_number(str(part)) for part in parts]
    for number, value in enumerate(values):
        if math.isnan(value):
            raise record.refuse(f"found '{parts[number]}' in '{column}', expected a number", number)
    return values


def _read_vectors(record: FileRecord, column: str, num_tokens: int) -> list[list[float]]:
    cell = record.get(column)
    rows = cell if isinstance(cell, list) else []
    if len(rows) != num_tokens or not all(isinstance(row, list) and row for row in rows):
        found = (
            f"found {plural(num_tokens, 'token')} and {str(cell)[:60]!r} in '{column}', expected"
        )
        raise record.refuse(f"{found} a vector for each token")
    widths = sorted({len(row) for row in rows})
    if len(widths) > 1:
        found = f"found vectors of {widths[0]} and of {widths[-1]} numbers in '{column}', expected"
        raise record.refuse(f"{found} one width")
    values = [[parse_number(str(value)) for value in row] for row in rows]
    if any(math.isnan(value) for row in values for value in row):
        raise record.refuse(f"found {str(cell)[:60]!r} in '{column}', expected finite numbers")
    return values


def _add_targets(example: UserExample, record: FileRecord, data: DataConfig) -> UserExample:
    targets: dict[str, list[str]] = {}
    if data.kind.has_several_labels:
        targets[LABELS] = _read_labels(record, data)
    elif data.kind.is_searched and not data.label:
        targets[LABEL] = [RIGHT]
    elif data.kind.has_label:
        wanted = "a number" if data.kind.is_number else "a label"
        cell = record.get(data.label)
        advice = f', or --set \'data.where={{"{data.label}": ".+"}}\' to leave out such rows'
        label = _read_label(record, data.label, cell, wanted + advice * (cell in ("", None)))
        is_measured = data.kind.is_number and data.format in ("tsv", "csv")
        label = write_point(label) if is_measured and data.separator_or_usual != "," else label
        if data.choices and label not in data.choice_names:
            names = ", ".join(data.choice_names)
            raise record.refuse(f"found '{label}' in '{data.label}', expected one of {names}")
        if data.kind.is_number and math.isnan(parse_number(label)):
            found = f"found '{label}' in '{data.label}', expected a number for the kind"
            raise record.refuse(f"{found} {data.kind}")
        targets[LABEL] = [label]
    if data.tag_column and data.has_spans:
        entities = _find_entities(example, record, data, data.tag_column)
        targets[TAGS] = write_tags(entities.spans, len(example.texts[0]), READ_SCHEME)
        example = example._replace(borders=entities.borders)
    elif data.tag_column:
        tags, size = record.get_list(data.tag_column), len(example.texts[0])
        if len(tags) != size:
            found = f"found {plural(size, 'token')} in '{data.texts[0]}' and {len(tags)} tags in"
            raise record.refuse(f"{found} '{data.tag_column}', expected a tag for each token")
        targets[TAGS] = add_type(tags, data.entity_type) if data.entity_type else tags
    return example._replace(targets=targets | _read_composed(example, record, data))


def _read_composed(
    example: UserExample, record: FileRecord, data: DataConfig
) -> dict[str, list[str]]:
    if data.kind.has_sentences:
        return {TAGS: _read_sentence_labels(example, record, data.label)}
    if data.kind.has_tree:
        return {TREE: _read_tree(example.texts[0], record, data.label)}
    return {OUTPUT: _read_output(record, data)} if data.kind.writes_text else {}


def _read_history(record: FileRecord, column: str, tokenize: Tokenizer) -> list[str]:
    """Return the tokens of the earlier turns: a list of texts, or a text with TURN between them."""
    cell = record.get_items(column)
    turns = cell.split(TURN) if isinstance(cell, str) else cell
    if not isinstance(turns, list | None) or not all(isinstance(turn, str) for turn in turns or []):
        raise record.refuse(f"found {cell!r} in '{column}', expected a list of the earlier turns")
    return join_turns([tokenize(turn) for turn in turns or [] if turn.strip()])


def _read_group(record: FileRecord, data: DataConfig) -> str:
    cell = record.get(data.group or data.texts[0])
    if data.group and cell in (None, ""):
        found = f"found {cell!r} in '{data.group}', expected the id of the candidate's question"
        raise record.refuse(found)
    return str(cell)


def _read_output(record: FileRecord, data: DataConfig) -> list[str]:
    words = TOKENIZERS.get(data.tokens)(record.get_text(data.label))
    if words == [EMPTY_TOKEN]:
        raise record.refuse(f"found no words in '{data.label}', expected the text to write")
    return words


def _read_tree(tokens: list[str], record: FileRecord, column: str) -> list[str]:
    """Return the symbols of a tree in brackets over the tokens."""
    symbols = record.get_list(column)
    try:
        list_constituents(symbols)
    except TreeError as err:
        raise record.refuse(f"'{column}': {err}") from err
    if (leaves := list_leaves(symbols)) != tokens:
        found = f"found the tokens '{' '.join(tokens)}' and in '{column}' '{' '.join(leaves)}'"
        raise record.refuse(f"{found}, expected the same")
    return symbols


def _find_entities(
    example: UserExample, record: FileRecord, data: DataConfig, column: str
) -> TaggedSpans:
    assert example.offsets is not None
    try:
        entities = parse_entities(record.get_items(column))
        return find_tokens(record.get_text(data.texts[0]), example.offsets, entities)
    except EntityError as err:
        raise record.refuse(f"'{column}': {err}") from err


def _read_label(
    record: FileRecord,
    column: str,
    cell: Any,  # Any: of JSON
    wanted: str = "a label",
) -> str:
    if isinstance(cell, str) and cell.startswith("["):
        cell = parse_list(cell)
    if isinstance(cell, list) and len(cell) == 1:
        (cell,) = cell  # as annotation tools write one label
    text = "" if cell is None or isinstance(cell, dict | list | bytes) else name_label(cell)
    if not text:
        raise record.refuse(f"found {cell!r} in '{column}', expected {wanted}")
    return text


def _read_labels(record: FileRecord, data: DataConfig) -> list[str]:
    cell = record.get_items(data.label)
    if isinstance(cell, str) and data.label_separator is not None:
        cell = [part for part in cell.split(data.label_separator) if part.strip()]
    if not isinstance(cell, list):
        found = f"found {cell!r} in '{data.label}', expected a list of labels"
        raise record.refuse(f"{found}, or data.label_separator")
    labels = [_read_label(record, data.label, item) for item in cell]
    if len(set(labels)) != len(labels):
        raise record.refuse(f"found {labels} in '{data.label}', expected each label once")
    return labels
