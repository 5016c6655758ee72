"""Columns of numbers, with a few cells that are none."""

from pathlib import Path

import pytest

from nlp_core.data.guess import guess_data
from nlp_core.data.kind_guess import guess_kind
from nlp_core.data.number_guess import find_numbers
from nlp_core.data.readers.user import read_examples
from nlp_core.errors import DataError
from nlp_core.kinds import CLASSIFICATION, REGRESSION
from tests.user_commands import fail
from tests.user_files import QUICK, put

pytestmark = pytest.mark.usefixtures("place")


def write(path: Path, numbers: list[str]) -> Path:
    rows = [f"a film of {idx} stars,{number}\n" for idx, number in enumerate(numbers)]
    path.write_text("text,score\n" + "".join(rows))
    return path


@pytest.mark.parametrize("odd", ["nan", "inf", "-inf", "N/A", "null", "1e400"])
def test_the_line_of_a_cell_that_is_no_number_is_named(tmp_path: Path, odd: str) -> None:
    numbers = [f"{idx / 7:.2f}" for idx in range(40)]
    path = write(tmp_path / "stars.csv", [*numbers, odd])
    assert guess_kind(path).kind == REGRESSION
    guess = guess_data(path, REGRESSION)
    assert guess.doubts["label"] == "1 of the first rows has no number"
    with pytest.raises(DataError, match=f"line 42: found '{odd}' in 'score', expected a number"):
        list(read_examples(path, guess.data))


def test_words_and_many_absent_cells_make_labels(tmp_path: Path) -> None:
    for others in (["many"], ["nan"] * 20, ["1_0"]):
        path = write(tmp_path / "stars.csv", [*map(str, range(1, 6)), *others] * 4)
        assert guess_kind(path).kind == CLASSIFICATION
    assert find_numbers([]) == []
    assert find_numbers(["1", "2.5", " 3 "]) == [1.0, 2.5, 3.0]


def test_a_number_that_never_varies_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "same.csv", ["3.5"] * 30)
    said = fail(capsys, "train", str(path), "-o", "out", *QUICK)
    assert "same.csv: found only the number 3.5 in the column 'score'" in said
    assert not Path("out").exists()


@pytest.mark.parametrize("name", ["price", "weight", "text2"])
def test_a_column_named_text_is_not_the_label(tmp_path: Path, name: str) -> None:
    rows = "".join(f"good soup number {number}\t{number * 1000}\n" for number in range(1, 61))
    path = put(tmp_path / "a.tsv", f"text\t{name}\n{rows}")
    assert guess_kind(path).kind == REGRESSION
    found = guess_data(path, REGRESSION)
    assert (found.data.texts, found.data.label) == (["text"], name)
    assert found.reasons["texts"] == "4 words on average"
    one = put(tmp_path / "b.tsv", "text\tlabel\n" + "soup\tyes\nbed\tno\n" * 9)
    assert guess_data(one, CLASSIFICATION).reasons["texts"] == "1 word on average"
