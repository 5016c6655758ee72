"""Guess which column of a table is the text and which the label, from names and values."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from nlp_core.data.number_guess import drop_missing, find_numbers, is_numeric
from nlp_core.data.readers.entities import EntityError, parse_entities
from nlp_core.errors import plural
from nlp_core.kinds import Kind
from reglue_runtime.text import CJK_WORD
from reglue_runtime.tree import TreeError, list_constituents, list_leaves, opens

PAIR_NAMES = (
    "sentence1 sentence2 sentence_a sentence_b text1 text2 text_a text_b premise hypothesis "
    "question1 question2 question answer question sentence question passage query document "
    "query passage query text question candidate query candidate a b"
)
"""Pairs of names. In all these lists the usual names come first."""
TEXT_NAMES = (
    "text sentence review comment query question utterance body content message document title "
    "description tweet headline"
)
TOKEN_NAMES = "tokens words token sentence text utterance"
LABEL_NAMES = (
    "label labels gold_label class category categories target sentiment intent topic topics rating "
    "stars score similarity gold y is_duplicate tag tags accept cats"
)
RELEVANCE_NAMES = f"relevant relevance is_relevant correct right {LABEL_NAMES}"
SLOT_NAMES = "tags slots slot_labels ner_tags pos_tags"
TAG_NAMES = f"{SLOT_NAMES} ner pos labels label tag"
ENTITY_NAMES = f"entities spans {TAG_NAMES}"
HISTORY_NAMES = "history context turns previous"
SENTENCE_NAMES = "sentences document text turns utterances paragraphs lines"
SENTENCE_LABEL_NAMES = "labels label tags tag classes categories"
OUTPUT_NAMES = "target output summary translation answer response reply completion"
SOURCE_NAMES = "source input prompt text document article question"
GROUP_NAMES = "query_id question_id qid group query_number"
LEAST_TEXTS = 10
"""Texts below which one word says nothing about a header."""
LONGEST_LABEL = 3
"""Most words of a label, on average."""


class GuessError(Exception):
    """No column fits a role; `advice` says what to do, if that depends on what was found."""

    def __init__(self, found: str, advice: str = "") -> None:
        super().__init__(found)
        self.advice = advice


@dataclass
class Roles:
    """Which column has which role.

    Attributes:
        label: the label; the tags of tagging.
        tags: the tags of intent_slots.
        group: the question of a candidate.
        choices: the candidates of a row.
        choice_labels: the label of each candidate; None for 0, 1, 2 ...
        doubts: what was not clear, by key of the `data` section.
    """

    texts: list[str]
    label: str
    tags: str | None = None
    group: str | None = None
    choices: list[str] = field(default_factory=list)
    choice_labels: list[str] | None = None
    doubts: dict[str, str] = field(default_factory=dict)


class ColumnProfile:
    """Statistics of the values of a column.

    Attributes:
        words: words of a value, on average; two characters of Chinese or Japanese are one.
        is_number: whether every value that is not missing is a number.
        is_whole: whether they are whole numbers.
        is_count: whether none is missing or repeated either.
    """

    def __init__(self, values: Sequence[Any]) -> None:  # Any: cells of JSON
        texts = ["" if value is None else str(value) for value in values]
        given = drop_missing(values)
        self.distinct = len(set(texts))
        self.words = sum(len(CJK_WORD.sub("x ", one).split()) for one in texts) / max(len(texts), 1)
        numbers = find_numbers(given)
        self.is_number = bool(numbers)
        self.is_whole = self.is_number and all(number.is_integer() for number in numbers)
        self.is_count = self.is_whole and self.distinct == len(given) == len(texts) > 2


def assign_roles(columns: dict[str, list[Any]], kind: Kind) -> Roles:
    """Return the roles of columns, given some values of each; too few columns are a GuessError."""
    has_label = not kind.is_searched
    wanted = len(kind.user_file.texts) + has_label + (kind.user_file.tags is not None)
    if len(columns) < wanted:
        raise GuessError(
            f"found {plural(len(columns), 'column')} ({', '.join(columns)}), "
            f"expected {wanted} at least"
        )
    if kind.has_tags:
        return _assign_tags(columns, kind)
    if kind.has_sentences:
        return _assign_document(columns)
    if kind.has_tree:
        return _assign_tree(columns)
    if kind.writes_text:
        return _assign_output(columns)
    looks = {name: ColumnProfile(values) for name, values in columns.items()}
    group = find_name(GROUP_NAMES, columns) if kind.is_grouped else None
    rest = [name for name in columns if name != group]
    pair = find_pair(rest) if kind.num_texts > 1 else []
    doubts: dict[str, str] = {}
    others = [name for name in rest if name not in pair]
    if kind.is_searched:
        label = find_name(RELEVANCE_NAMES, others) or ""
        texts = pair or choose_texts(looks, [name for name in rest if name != label], 2, doubts)
        short = [name for name in others if looks[name].words <= LONGEST_LABEL / 2]
        unused = [name for name in short if name not in texts and not looks[name].is_count]
        if unused and not label:
            doubts["label"] = f"could be {', '.join(unused)}; without one each passage is right"
        _require_texts(texts, kind, looks)
        return Roles(texts, label, group=group, doubts=doubts)
    if not others:
        raise GuessError(f"found no label column among {', '.join(columns)}")
    label = _choose_label(looks, others, kind, doubts)
    rest = [name for name in rest if name != label]
    texts = pair or choose_texts(looks, rest, kind.num_texts, doubts)
    _require_texts(texts, kind, looks)
    return Roles(texts, label, group=group, doubts=doubts)


def _require_texts(found: list[str], kind: Kind, looks: dict[str, ColumnProfile]) -> None:
    if len(found) < kind.num_texts:
        raise GuessError(
            f"found {plural(len(found), 'column')} of texts "
            f"({', '.join(found) or 'none'}), expected {kind.num_texts}"
        )
    if empty := [name for name in found if not looks[name].words]:
        raise GuessError(f"found only empty cells in '{empty[0]}', expected texts")


def find_entities(columns: dict[str, list[Any]]) -> str | None:
    names = [*ENTITY_NAMES.split(), *columns]
    return next((name for name in names if name in columns and _are_entities(columns[name])), None)


def _are_entities(values: list[Any]) -> bool:  # Any: cells of JSON
    try:
        labels = {span.label for value in values for span in parse_entities(value)}
    except EntityError:
        return False
    return bool(labels) and not any(is_numeric(label) for label in labels)  # 12:30:45 is a time


def assign_entities(columns: dict[str, list[Any]], kind: Kind, entities: str) -> Roles:
    names = [name for name in columns if name != entities]
    looks = {name: ColumnProfile(columns[name]) for name in names}
    if len(names) < 1 + kind.has_label:
        wanted = "a text and a label" if kind.has_label else "a text"
        raise GuessError(f"found the entities in '{entities}', expected {wanted} with them")
    doubts: dict[str, str] = {}
    label = _choose_label(looks, names, kind, doubts) if kind.has_label else None
    texts = choose_texts(looks, [name for name in names if name != label], 1, doubts)
    if label is None:
        return Roles(texts, entities, doubts=doubts)
    return Roles(texts, label, entities, doubts=doubts)


def is_header(first: Sequence[str], rest: Sequence[Sequence[str]]) -> bool:
    """Return whether the first line of a table names its columns.

    It does if it has a usual name of texts or labels, a word above nothing but numbers or texts of
    several words, or a value that a column of few values never repeats.
    """
    names = [LABEL_NAMES, TEXT_NAMES, ENTITY_NAMES, TOKEN_NAMES, GROUP_NAMES, PAIR_NAMES]
    names += [SOURCE_NAMES, OUTPUT_NAMES, "id idx"]
    known = set(" ".join(names).split()) - {"a", "b", "y"}
    for cell, *values in zip(first, *rest, strict=False):
        if cell.strip().lower() in known and cell not in values:
            return True
        look = ColumnProfile(values)
        if look.is_number and not is_numeric(cell):
            return True
        are_texts = len(values) >= LEAST_TEXTS and all(len(text.split()) > 1 for text in values)
        if are_texts and cell.strip().isidentifier():
            return True
        few = look.distinct <= max(2, len(values) // 5) and len(values) > look.distinct
        if few and cell not in values:
            return True
    return False


def _assign_tags(columns: dict[str, list[Any]], kind: Kind) -> Roles:
    names = list(columns)
    usual = SLOT_NAMES if kind.has_label else TAG_NAMES
    outside = [name for name in names if any("O" in split_cell(value) for value in columns[name])]
    tags = find_name(usual, names) or (outside or names)[-1]
    names.remove(tags)
    sizes = [len(split_cell(value)) for value in columns[tags]]
    fitting = [
        name for name in names if [len(split_cell(value)) for value in columns[name]] == sizes
    ]
    text = find_name(TOKEN_NAMES, names) or (fitting or names)[0]
    names.remove(text)
    if not kind.has_label:
        return Roles([text], tags)
    texts = [text]
    if kind.has_history:
        longest = max(names, key=lambda name: ColumnProfile(columns[name]).words)
        texts.append(find_name(HISTORY_NAMES, names) or longest)
        names.remove(texts[1])
    label = find_name(LABEL_NAMES, names) or find_fewest(columns, names)
    return Roles(texts, label, tags)


def _assign_document(columns: dict[str, list[Any]]) -> Roles:
    names = list(columns)
    by_words = sorted(names, key=lambda name: -ColumnProfile(columns[name]).words)
    text = find_name(SENTENCE_NAMES, names) or by_words[0]
    names.remove(text)
    return Roles([text], find_name(SENTENCE_LABEL_NAMES, names) or find_fewest(columns, names))


def _assign_output(columns: dict[str, list[Any]]) -> Roles:
    names = list(columns)
    output = find_name(OUTPUT_NAMES, names)
    source = find_name(SOURCE_NAMES, [name for name in names if name != output])
    if output and source:
        return Roles([source], output)
    looks = {name: ColumnProfile(columns[name]) for name in names}
    rest = [name for name in names if not looks[name].is_number and name not in (source, output)]
    rest = rest or [name for name in names if name not in (source, output)]
    source = source or rest.pop(0)
    if not output and not rest:
        raise GuessError(f"found no column of texts to write among {', '.join(names)}")
    output = output or rest.pop(0)
    doubts = {"label": f"could also be {', '.join(rest)}"} if rest else {}
    return Roles([source], output, doubts=doubts)


def _assign_tree(columns: dict[str, list[Any]]) -> Roles:
    names = list(columns)
    opening = [name for name in names if all(map(opens, map(_join_cell, columns[name])))]
    trees = [name for name in opening if are_trees(columns[name])] or opening
    if not trees:
        raise GuessError(
            f"found no column of trees among {', '.join(names)}, expected one such as "
            "[IN:GET_TIME what time [SL:PLACE here ] ]"
        )
    leaves = [list_leaves(split_cell(cell)) for cell in columns[trees[0]]]
    fitting = [name for name in names if [split_cell(cell) for cell in columns[name]] == leaves]
    others = [name for name in names if name not in trees]
    if not fitting and not others:
        raise GuessError(f"found trees in every column ({', '.join(names)}), expected texts in one")
    return Roles([(fitting or others)[0]], trees[0])


def find_fewest(columns: dict[str, list[Any]], names: list[str]) -> str:
    return min(names, key=lambda name: ColumnProfile(columns[name]).distinct)


def split_cell(value: Any) -> list[str]:  # Any: a cell of JSON
    return [str(item) for item in value] if isinstance(value, list) else str(value).split()


def _join_cell(value: Any) -> str:  # Any: a cell of JSON
    return " ".join(split_cell(value))


def are_trees(cells: list[Any]) -> bool:  # Any: cells of JSON
    """Return whether all cells begin as trees do, and one at least is a tree."""
    return all(map(opens, map(_join_cell, cells))) and any(map(_is_tree, cells))


def _is_tree(cell: Any) -> bool:  # Any: a cell of JSON
    try:
        list_constituents(split_cell(cell))
    except TreeError:
        return False
    return True


def _choose_label(
    looks: dict[str, ColumnProfile], names: list[str], kind: Kind, doubts: dict[str, str]
) -> str:
    names = [name for name in names if find_name(TEXT_NAMES, [name]) is None] or names
    if kind.is_number:
        numbers = [name for name in names if looks[name].is_number]
        if not numbers:
            raise GuessError(f"found no column of numbers among {', '.join(names)}")
        fitting = [name for name in numbers if not looks[name].is_count]
        if not fitting and find_name(LABEL_NAMES, numbers) is None:
            doubts["label"] = "each row has another whole number; is it an id?"
        fitting = fitting or numbers
    else:
        uncounted = [name for name in names if not looks[name].is_count] or names
        fitting = [name for name in uncounted if looks[name].words <= LONGEST_LABEL] or uncounted
    if named := find_name(LABEL_NAMES, names if kind.has_several_labels else fitting):
        return named
    if kind.is_number:
        label, alike = fitting[-1], fitting
    else:
        # a column of one value is not the label
        label = min(fitting, key=lambda name: (looks[name].distinct < 2, looks[name].distinct))
        alike = [name for name in fitting if looks[name].words <= LONGEST_LABEL / 2]
    if others := [name for name in alike if name != label]:
        doubts["label"] = f"could also be {', '.join(others)}"
    return label


def choose_texts(
    looks: dict[str, ColumnProfile], names: list[str], number: int, doubts: dict[str, str]
) -> list[str]:
    """Return the `number` columns most like texts; add other candidates to `doubts`."""
    names = [name for name in names if looks[name].words] or names
    named = find_name(TEXT_NAMES, names)
    if number == 1 and named:
        chosen = [named]
    else:
        longest = sorted(names, key=lambda name: (looks[name].is_number, -looks[name].words))
        chosen = [name for name in names if name in longest[:number]]
    others = [
        name for name in names if name not in chosen and looks[name].words > LONGEST_LABEL / 2
    ]
    if others:
        doubts["texts"] = f"could also be {', '.join(others)}"
    return chosen


def find_name(wanted: str, names: Collection[str]) -> str | None:
    """Return the first of the wanted names, separated by spaces, that a column has."""
    by_lower = {name.strip().lower(): name for name in reversed(list(names))}
    return next((by_lower[name] for name in wanted.split() if name in by_lower), None)


def find_pair(names: list[str]) -> list[str]:
    by_lower = {name.strip().lower(): name for name in names}
    wanted = PAIR_NAMES.split()
    pairs = zip(wanted[::2], wanted[1::2], strict=True)
    return next(([by_lower[a], by_lower[b]] for a, b in pairs if {a, b} <= {*by_lower}), [])
