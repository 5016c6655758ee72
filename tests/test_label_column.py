"""Labels of the user's file: as items, as ids, of some rows."""

import numpy as np
import pytest

from nlp_core.data.split_column import LabelColumn, TextColumn
from nlp_core.errors import DataError


def make(target: str, rows: list[list[str]]) -> LabelColumn:
    words = TextColumn.join(rows)
    lines = {word: line for line, row in enumerate(rows, start=2) for word in row}
    return LabelColumn(target, words, "a.tsv", lines)


def test_items_have_the_form_of_the_target() -> None:
    assert list(make("label", [["no"], ["yes"]])) == ["no", "yes"]
    assert list(make("labels", [["a", "b"], []])) == [("a", "b"), ()]
    assert make("tags", [["O", "B-X"]])[:1] == [["O", "B-X"]]


def test_labels_become_ids_in_the_order_of_the_task() -> None:
    rows = np.array([1, 0])
    assert make("label", [["no"], ["yes"]]).encode(["no", "yes"])[rows].tolist() == [1, 0]
    several = make("labels", [["b"], ["a", "b"]]).encode(["a", "b", "c"])
    assert several[rows].tolist() == [[1.0, 1.0, 0.0], [0.0, 1.0, 0.0]]
    part = make("label", [["no"], ["yes"], ["no"]]).subset(np.array([1, 2]))
    assert part.encode(["no", "yes"])[np.array([0, 1])].tolist() == [1, 0]


def test_an_unknown_label_is_refused_with_its_line() -> None:
    with pytest.raises(DataError, match=r"a\.tsv: line 3: found the label 'yes'.*training file"):
        make("label", [["no"], ["yes"]]).encode(["no", "other"])
