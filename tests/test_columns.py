import mmap
import runpy
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nlp_core.data import columns, split_column
from nlp_core.data.columns import build_schema, write_rows
from nlp_core.data.readers.example import Example, Sentence
from nlp_core.kinds import INTENT_SLOTS, KINDS, MULTI_LABEL, RANKING, REGRESSION, TAGGING
from reglue_runtime.text import split_spaces

PAIRS = [Example(2, "a b", "c", "1", 0), Example(3, "", "d e ", None, 1)]


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("classification", ["id", "text", "tokens", "label"]),
        ("regression", ["id", "text", "tokens", "label"]),
        ("multi_label", ["id", "text", "tokens", "labels"]),
        ("pair_regression", ["id", "text_a", "text_b", "tokens_a", "tokens_b", "label"]),
        ("ranking", ["id", "text_a", "text_b", "tokens_a", "tokens_b", "label", "group"]),
        ("tagging", ["id", "tokens", "tags"]),
        ("intent_slots", ["id", "tokens", "tags", "label"]),
        (
            "span",
            [
                *("id", "key", "text_a", "text_b", "tokens_a", "tokens_b", "starts_b", "ends_b"),
                *("answers", "answerable", "first", "last"),
            ],
        ),
    ],
)
def test_schema_of_each_kind(kind: str, names: list[str]) -> None:
    schema = build_schema(KINDS.get(kind))
    assert schema.names == names
    if "label" in names:
        is_number = kind.endswith("regression")
        assert schema.field("label").type == (pa.float64() if is_number else pa.string())


def test_ranking_rows_are_read_back(tmp_path: Path) -> None:
    write_rows(tmp_path / "a.parquet", RANKING, [4, 7], PAIRS, split_spaces)
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.schema.metadata is None
    assert table.to_pylist()[0] == {
        "id": 4,
        "text_a": "a b",
        "text_b": "c",
        "tokens_a": ["a", "b"],
        "tokens_b": ["c"],
        "label": "1",
        "group": 0,
    }
    assert table["label"].to_pylist() == ["1", None]
    assert table["text_b"].to_pylist()[1] == "d e "
    assert table["tokens_a"].to_pylist()[1] == ["<empty>"]


def test_several_labels_are_a_list(tmp_path: Path) -> None:
    rows = [
        Example(1, "a", None, None, labels=("x", "y")),
        Example(2, "b", None, None, labels=()),
        Example(3, "c", None, None),
    ]
    write_rows(tmp_path / "a.parquet", MULTI_LABEL, [0, 1, 2], rows, split_spaces)
    assert pq.read_table(tmp_path / "a.parquet")["labels"].to_pylist() == [["x", "y"], [], None]


def test_regression_label_is_a_number(tmp_path: Path) -> None:
    rows = [Example(1, "a", None, "3.800"), Example(2, "b", None, None)]
    write_rows(tmp_path / "a.parquet", REGRESSION, [0, 1], rows, split_spaces)
    assert pq.read_table(tmp_path / "a.parquet")["label"].to_pylist() == [3.8, None]


def test_bytes_are_the_same_twice_over_several_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "ROWS_A_GROUP", 3)
    rows = [Sentence(n, [f"w{n}", "x"], ["O", "S-LOC"]) for n in range(8)]
    for name in ("a", "b"):
        write_rows(tmp_path / name, TAGGING, range(8), rows, split_spaces)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert pq.read_metadata(tmp_path / "a").num_row_groups == 3
    assert pq.read_table(tmp_path / "a")["id"].to_pylist() == list(range(8))


def test_sentences_with_a_label_are_read_back(tmp_path: Path) -> None:
    rows = [Sentence(1, ["to", "Rome"], ["O", "B-city"], "flight")]
    write_rows(tmp_path / "a", INTENT_SLOTS, [3], rows, split_spaces)
    assert pq.read_table(tmp_path / "a").to_pylist() == [
        {"id": 3, "tokens": ["to", "Rome"], "tags": ["O", "B-city"], "label": "flight"}
    ]


def test_columns_load_where_no_page_of_a_file_can_be_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(mmap, "MADV_DONTNEED")  # Windows has none
    assert "TextColumn" in runpy.run_path(str(split_column.__file__))
