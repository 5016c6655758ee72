"""Guess what a model can learn from a file: one label for a text, tags, a ranking and so on."""

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from nlp_core.data.choice_guess import STEMS, assign_choices, find_choices
from nlp_core.data.column_guess import (
    LABEL_NAMES,
    LONGEST_LABEL,
    RELEVANCE_NAMES,
    SLOT_NAMES,
    TAG_NAMES,
    ColumnProfile,
    GuessError,
    Roles,
    are_trees,
    assign_roles,
    find_entities,
    find_name,
    find_pair,
    split_cell,
)
from nlp_core.data.conll_guess import CHUNK
from nlp_core.data.format_guess import find_folder_format, guess_format, parse_document
from nlp_core.data.guess import check_rows, explain_column
from nlp_core.data.number_guess import is_numeric
from nlp_core.data.readers.records import check_file
from nlp_core.data.table_sample import read_sample
from nlp_core.data.user_task import WRONG_AND_RIGHT
from nlp_core.errors import DataError
from nlp_core.kinds import (
    CLASSIFICATION,
    DOCUMENT,
    INTENT_SLOTS,
    MULTI_LABEL,
    PAIR_CLASSIFICATION,
    PAIR_REGRESSION,
    PARSING,
    RANKING,
    REGRESSION,
    RETRIEVAL,
    SPAN,
    TAGGING,
    Kind,
)
from reglue_runtime.text import split_turns

Cells = dict[str, list[Any]]  # Any: cells of JSON
CLASS_NAMES = "label labels class category categories target intent topic topics y"
MOST_NUMBERS = 20
"""Most different whole numbers that are taken for labels."""
QUESTION_NAMES = ("question", "query")
LEAST_WORDS = 2
"""Least words of a sentence, on average."""
LEAST_SEVERAL = 0.05
"""Least share of cells with several labels."""


class KindGuess(NamedTuple):
    """A kind of data, and why.

    Attributes:
        has_choices: whether a row contains all candidates of its question.
        doubt: what else it could be; empty: nothing.
    """

    kind: Kind
    reason: str
    has_choices: bool = False
    doubt: str = ""


def guess_kind(path: Path) -> KindGuess:
    """Guess the kind of a training file.

    Raises:
        DataError: the file is missing, empty or malformed, or no column can be a label.
    """
    check_file(path, find_folder_format(path))
    if _has_questions(path):
        return KindGuess(SPAN, "JSON of SQuAD")
    check_rows(path)
    values: dict[str, Any] = {"format": guess_format(path, TAGGING)}
    if values["format"] == "conll":
        return KindGuess(TAGGING, "a token and its tag on each line")
    columns, nested = read_sample(path, values)
    try:
        return _guess_tokens(columns, nested) or _guess_pair(columns) or _guess_label(columns)
    except GuessError as err:
        if err.advice:
            raise DataError(f"{path}: {err}. {err.advice}") from err
        if nested:
            todo = f"The objects in {', '.join(nested)} are not read; write their values as columns"
        else:
            todo = "Name the columns in the first line, such as text and label"
        look = explain_column(path, columns, values["format"])
        raise DataError(
            f"{path}: {err}{look}. {todo}, or name the kind of data with --kind."
        ) from err


def _has_questions(path: Path) -> bool:
    found = parse_document(path)
    items = found.get("data") if isinstance(found, dict) else None
    return isinstance(items, list) and all(
        isinstance(item, dict) and "paragraphs" in item for item in items
    )


def _guess_tokens(columns: Cells, nested: Cells) -> KindGuess | None:
    """Return a kind of trees, tags or entities, if a column has them."""
    for name, cells in columns.items():
        if are_trees(cells):
            return KindGuess(PARSING, f"'{name}' has trees")
    if (entities := find_entities(columns | nested)) is not None:
        return KindGuess(TAGGING, f"'{entities}' has entities by their offsets")
    if (found := _find_sentences(columns)) is not None:
        return KindGuess(DOCUMENT, f"'{found[1]}' has a label for each sentence of '{found[0]}'")
    sizes = {name: [len(split_cell(cell)) for cell in cells] for name, cells in columns.items()}
    named = [name for name in columns if find_name(f"{SLOT_NAMES} {TAG_NAMES}", [name])]
    for tags in named:
        texts = [name for name in columns if name != tags and sizes[name] == sizes[tags]]
        if texts and max(sizes[tags]) > 1:
            others = [name for name in columns if name not in (tags, *texts)]
            label = find_name(LABEL_NAMES, others)
            if label is None:
                return KindGuess(TAGGING, f"'{tags}' has a tag for each token of '{texts[0]}'")
            reason = f"'{tags}' has a tag for each token, and '{label}' a label"
            return KindGuess(INTENT_SLOTS, reason)
    return None


def _find_sentences(columns: Cells) -> tuple[str, str] | None:
    """Return a column of several sentences and one of a label for each of them, if any."""
    for text, cells in columns.items():
        parts = [cell if isinstance(cell, list) else split_turns(str(cell)) for cell in cells]
        words = [len(split_cell(part)) for row in parts for part in row]
        sizes = [len(row) for row in parts]
        if max(sizes, default=0) < 2 or sum(words) < LEAST_WORDS * len(words):
            continue
        for name in columns:
            own = [split_cell(cell) for cell in columns[name]]
            lines = [split_turns(str(cell)) for cell in columns[name]]
            if name != text and sizes in ([*map(len, own)], [*map(len, lines)]):
                return text, name
    return None


def _guess_pair(columns: Cells) -> KindGuess | None:
    """Return a kind of two texts, or of a question and its candidates, if names say so."""
    if _are_choices(columns):
        return KindGuess(RANKING, "each row has a question and its candidates", True)
    pair = find_pair(list(columns))
    if not pair or ColumnProfile(columns[pair[1]]).is_number:
        return None
    shown = " and ".join(f"'{name}'" for name in pair)
    others = [name for name in columns if name not in pair]
    doubt = ""
    if find_name(RELEVANCE_NAMES, others) is None:
        is_search = any(name.strip().lower() in QUESTION_NAMES for name in pair)
        if is_search or not any(_may_be_target(columns[name]) for name in others):
            return KindGuess(RETRIEVAL, f"{shown}, without a column of labels")
        doubt = "by the values; add --kind retrieval if the texts of each row belong together"
    label = assign_roles(columns, PAIR_CLASSIFICATION).label
    if _is_measured(columns[label]) and not _are_class_numbers(label, columns[label]):
        doubt = doubt or _doubt_numbers(columns[label])
        return KindGuess(PAIR_REGRESSION, f"{shown}, and '{label}' is a number", doubt=doubt)
    values = {str(cell).strip().lower() for cell in columns[label]}
    questions = Counter(str(cell) for cell in columns[pair[0]])
    has_candidates = len(questions) <= len(columns[label]) / 2
    is_marked = any(values == {*both} for both in WRONG_AND_RIGHT)
    if has_candidates and is_marked and pair[0].strip().lower() in QUESTION_NAMES:
        return KindGuess(RANKING, f"{shown}: candidates, and '{label}' marks the right ones")
    return KindGuess(PAIR_CLASSIFICATION, f"{shown}, and '{label}' is a label", doubt=doubt)


def _may_be_target(cells: list[Any]) -> bool:
    """Return whether a column has a few short labels, or numbers other than ids."""
    look = ColumnProfile(cells)
    is_label = look.words <= LONGEST_LABEL and look.distinct <= min(MOST_NUMBERS, len(cells) // 2)
    return look.distinct > 1 and (is_label or (look.is_number and not look.is_whole))


def _are_choices(columns: Cells) -> bool:
    try:
        choices = find_choices(list(columns))
        assign_choices(columns)
    except GuessError:
        return False
    return any(choices[0].strip().lower().startswith(stem) for stem in STEMS)


def _guess_label(columns: Cells) -> KindGuess:
    """Return a kind of one text.

    Raises:
        GuessError: there are too few columns.
    """
    roles = assign_roles(columns, CLASSIFICATION)
    label = roles.label
    cells = columns[label]
    _refuse_words(columns, roles)
    if all(isinstance(cell, list) and len(cell) == 1 for cell in cells):
        doubt = "lists of one label; add --kind multi_label if a row may have several or none"
        return KindGuess(CLASSIFICATION, f"'{label}' is one label", doubt=doubt)
    if any(isinstance(cell, list) for cell in cells) or _are_several(cells):
        return KindGuess(MULTI_LABEL, f"cells of '{label}' have several labels")
    if _is_measured(cells) and not _are_class_numbers(label, cells):
        return KindGuess(REGRESSION, f"'{label}' is a number", doubt=_doubt_numbers(cells))
    look = ColumnProfile(cells)
    doubt = ""
    if look.is_number and look.distinct > 2:
        doubt = "whole numbers; add --kind regression if a number is to be predicted"
    return KindGuess(CLASSIFICATION, f"'{label}' is one label", doubt=doubt)


def _refuse_words(columns: Cells, roles: Roles) -> None:
    """Raise GuessError if each row is a word and its tag."""
    (text,), tags = roles.texts, [str(cell) for cell in columns[roles.label]]
    begun = next((tag for tag in tags if tag.startswith("B-")), None)
    if begun and all(map(CHUNK.fullmatch, tags)) and ColumnProfile(columns[text]).words < 1.5:
        raise GuessError(
            f"found a word in '{text}' and a tag such as '{begun}' in '{roles.label}' on each row, "
            "expected the words and tags of a sentence",
            "Write a row for each sentence, with spaces between words and between tags, or a "
            ".conll file, with a blank line between sentences.",
        )


def _are_class_numbers(name: str, cells: list[Any]) -> bool:
    """Return whether a column called as labels are numbers the classes from 0 or 1 on."""
    look = ColumnProfile(cells)
    if find_name(CLASS_NAMES, [name]) is None or not look.is_whole:
        return False
    numbers = {int(float(cell)) for cell in cells if is_numeric(str(cell))}
    start = min(numbers)
    is_dense = start in (0, 1) and len(numbers) == max(numbers) - start + 1
    return is_dense and 2 * len(numbers) <= len(cells)


def _doubt_numbers(cells: list[Any]) -> str:
    is_whole = ColumnProfile(cells).is_whole
    return "whole numbers; add --kind classification if they stand for classes" * is_whole


def _is_measured(cells: list[Any]) -> bool:
    """Return whether the cells are numbers that no list of labels would have."""
    look = ColumnProfile(cells)
    return look.is_number and (not look.is_whole or look.distinct > MOST_NUMBERS)


def _are_several(cells: list[Any]) -> bool:
    """Return whether cells are lists of short labels that other cells have too."""
    texts = [str(cell) for cell in cells]
    for mark in "|;,":
        several = [text for text in texts if mark in text]
        if len(several) < LEAST_SEVERAL * len(texts) or not several:
            continue
        parts = Counter(part.strip() for text in texts for part in text.split(mark))
        short = all(len(part.split()) <= LONGEST_LABEL for part in parts)
        if short and len(parts) < sum(parts.values()) / 3 and len(parts) < len(set(texts)) + 1:
            return True
    return False
