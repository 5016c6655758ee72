"""The traits of examples: counted by hand, the same after a round trip, and those committed."""

from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nlp_core.cli import main
from nlp_core.data.audit.audit import Audit, audit_splits
from nlp_core.data.audit.record import FOLDER, read_audit
from nlp_core.data.audit.traits import (
    DATA,
    find_traits,
    list_traits,
    read_traits,
    write_traits,
)
from nlp_core.data.audit.unit import Row, list_sorts
from nlp_core.errors import DataError
from nlp_core.kinds import CLASSIFICATION, KINDS, PAIR_CLASSIFICATION, RANKING, Kind
from tests.test_data_audit import write_task

ROOT = Path(__file__).resolve().parent.parent
AUDITS = sorted((ROOT / FOLDER).glob("*.json"))
SPLITS = {
    "train": [("A cat sat.",), ("Dogs bark!",)],
    "held_out": [("Birds sing",)],
    "test": [
        ("a CAT, sat",),  # a text of train but for case and punctuation
        ("Birds sing.",),  # one that was held out
        ("The cat saw the fish",),  # four words are new, two of them the same
        ("...",),
    ],
}


def audit(kind: Kind, splits: dict[str, list[tuple[str, ...]]]) -> Audit:
    """Audit texts; two rows have one question where rows are candidates."""
    readers = {
        split: partial(
            iter,
            [Row(10 + idx, texts, {"label": ["0"]}, idx // 2) for idx, texts in enumerate(rows)],
        )
        for split, rows in splits.items()
    }
    return audit_splits("trial", kind, readers, data="sha256:1")


def test_words_are_counted_and_looked_up_in_train_and_what_was_held_out() -> None:
    assert list_traits(audit(CLASSIFICATION, SPLITS)).to_pylist() == [
        {"split": "test", "id": 10, "words": 3, "unseen": 0, "in_train": True},
        {"split": "test", "id": 11, "words": 2, "unseen": 0, "in_train": True},
        {"split": "test", "id": 12, "words": 5, "unseen": 4, "in_train": False},
        {"split": "test", "id": 13, "words": 0, "unseen": 0, "in_train": False},
    ]


def test_the_words_of_both_texts_of_a_pair_count() -> None:
    splits = {"train": [("a b", "c")], "dev": [("c d", "a"), ("a b", "c")]}
    rows = list_traits(audit(PAIR_CLASSIFICATION, splits)).to_pylist()
    assert [[*row.values()][2:] for row in rows] == [[3, 1, False], [3, 0, True]]


def test_a_question_has_its_first_row_and_the_words_of_candidates_are_seen() -> None:
    splits = {
        "train": [("who", "an answer"), ("who", "nobody")],
        "dev": [("who nobody", "x"), ("who nobody", "y"), ("who", "z"), ("who", "w")],
    }
    rows = list_traits(audit(RANKING, splits)).to_pylist()
    assert [[*row.values()][1:] for row in rows] == [[10, 2, 0, False], [12, 1, 0, True]]


def test_traits_are_the_same_bytes_and_values_again(tmp_path: Path) -> None:
    table = list_traits(audit(CLASSIFICATION, SPLITS))
    paths = [find_traits(name, tmp_path) for name in ("one", "two")]
    for path in paths:
        write_traits(path, table)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert pq.read_schema(paths[0]).metadata[DATA] == b"sha256:1"
    traits = read_traits(paths[0], "test")
    assert traits.id.tolist() == [10, 11, 12, 13]
    assert traits.unseen.tolist() == [0, 0, 4, 0]
    assert traits.in_train.tolist() == [True, True, False, False]
    assert len(read_traits(paths[0], "dev").id) == 0


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rte.parquet"
    path.write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"rte\.parquet: found no readable .*audit rte --keep"):
        read_traits(path, "dev")
    pq.write_table(pa.table({"split": ["dev"]}), path)
    with pytest.raises(DataError, match="found other columns or no digest"):
        read_traits(path, "dev")


def test_a_kept_audit_has_traits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_task(tmp_path, {"train": [("a b", "a"), ("c", "b")], "dev": [("A b", "b"), ("d", "a")]})
    monkeypatch.chdir(tmp_path)
    main(["data", "audit", "trial", "--keep"])
    path = find_traits("trial", tmp_path)
    assert read_traits(path, "dev").in_train.tolist() == [True, False]
    data = read_audit(tmp_path / FOLDER / "trial.json").data
    assert pq.read_schema(path).metadata[DATA].decode() == data


@pytest.mark.parametrize("path", AUDITS, ids=[path.stem for path in AUDITS])
def test_committed_traits_agree_with_the_audit(path: Path) -> None:
    audited, traits = read_audit(path), find_traits(path.stem, ROOT)
    assert pq.read_schema(traits).metadata[DATA].decode() == audited.data
    for split, found in audited.units[list_sorts(KINDS.get(audited.kind))[0]].items():
        own = read_traits(traits, split)
        if split in {"train", "held_out"}:
            assert len(own.id) == 0
            continue
        assert found.in_train is not None
        assert len({*own.id.tolist()}) == len(own.id) == found.examples
        assert own.in_train.sum() == found.in_train.normalised
