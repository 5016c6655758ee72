"""The audit of data: what is planted is found, and nothing else."""

import json
import random
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nlp_core.cli import main
from nlp_core.config.params import read_params
from nlp_core.data.audit.audit import Audit, audit_splits, audit_task
from nlp_core.data.audit.key import NgramIndex, read_text
from nlp_core.data.audit.record import Overlap, Repeats, TaskAudit
from nlp_core.data.audit.split_comparison import compare_labels, compare_numbers
from nlp_core.data.audit.unit import Row
from nlp_core.errors import DataError
from nlp_core.files import write_json
from nlp_core.kinds import (
    CLASSIFICATION,
    INTENT_SLOTS,
    MULTI_LABEL,
    PAIR_CLASSIFICATION,
    RANKING,
    REGRESSION,
    SPAN,
    TAGGING,
    Kind,
)
from nlp_core.report.data_audit import render_audits
from nlp_core.report.results import read_results

ROOT = Path(__file__).resolve().parent.parent
NONE = Repeats(exact=0, normalised=0)


def make_words(draw: random.Random, size: int) -> list[str]:
    return ["".join(draw.choices("abcdefghij", k=5)) for _ in range(size)]


def make_rows(seed: int, rows: int, *, texts: int = 1, size: int = 15) -> list[Row]:
    """Return random rows, which repeat nothing."""
    draw = random.Random(seed)
    return [
        Row(
            number,
            tuple(" ".join(make_words(draw, size)) for _ in range(texts)),
            {"label": [draw.choice(["yes", "no"])]},
        )
        for number in range(1, rows + 1)
    ]


def audit(kind: Kind, splits: Mapping[str, Sequence[Row]], shown: int = 0) -> Audit:
    readers = {name: partial(_iterate, rows) for name, rows in splits.items()}
    return audit_splits("trial", kind, readers, shown=shown)


def _iterate(rows: Sequence[Row]) -> Iterator[Row]:
    yield from rows


def label(text: str, value: str, *, place: int = 0) -> Row:
    return Row(place, (text,), {"label": [value]})


def test_nothing_is_found_in_random_texts() -> None:
    splits = {"train": make_rows(1, 3000), "dev": make_rows(2, 500), "test": make_rows(3, 500)}
    found = audit(CLASSIFICATION, splits, shown=5)
    assert found.findings == []
    for name, split in found.units["texts"].items():
        assert split.examples == split.labelled == len(splits[name])
        assert split.repeated == split.conflicting == NONE
    for name in ("dev", "test"):
        split = found.units["texts"][name]
        assert split.in_train == Overlap(exact=0, normalised=0, ngram=0, long=500, other_label=0)
        assert split.label_shift is not None
        assert split.label_shift.p > 0.001


def test_everything_planted_is_found() -> None:
    train, test = make_rows(1, 400), make_rows(2, 200)
    train += [
        train[3],
        label(train[4].texts[0].upper() + "!", "yes"),
        label(train[5].texts[0], "maybe"),
    ]
    words = train[6].texts[0].split()
    test += [
        train[7],
        label(
            f"\u201c{train[8].texts[0]}\u201d".replace(" ", "\u3000"), train[8].targets["label"][0]
        ),
        label(train[9].texts[0].title(), "maybe"),
        label(" ".join(["New", *words[:13], "end"]), "yes"),
        label(" ".join([*words[:12], "other", *words[13:]]), "yes"),
    ]
    found = audit(CLASSIFICATION, {"train": train, "test": test}, shown=9)
    texts = found.units["texts"]
    assert texts["train"].repeated == Repeats(exact=2, normalised=3)
    is_other = train[4].targets["label"] != ["yes"]
    assert texts["train"].conflicting == Repeats(exact=2, normalised=2 + 2 * is_other)
    assert texts["test"].repeated == texts["test"].conflicting == NONE
    assert texts["test"].in_train == Overlap(
        exact=1, normalised=3, ngram=4, long=205, other_label=1
    )
    shown = [(item.fault, item.split, item.unit, item.other) for item in found.findings]
    assert [item for item in shown if item[1] == "test"] == [
        ("in train", "test", 200, 7),
        ("in train", "test", 201, 8),
        ("in train, other label", "test", 202, 9),
        ("13 words in train", "test", 203, 6),
    ]
    assert ("repeated", "train", 400, 3) in shown
    assert ("conflicting label", "train", 402, 5) in shown
    units = found.read_units()
    assert units["texts", "test", 200].texts == units["texts", "train", 7].texts


def test_what_was_held_out_counts_as_train_for_the_others() -> None:
    train, held_out, test = make_rows(1, 50), make_rows(2, 20), make_rows(3, 20)
    held_out.append(train[0])
    test += [train[1], held_out[2]]
    found = audit(CLASSIFICATION, {"train": train, "held_out": held_out, "test": test}, shown=3)
    texts = found.units["texts"]
    assert texts["held_out"].in_train == Overlap(
        exact=1, normalised=1, ngram=1, long=21, other_label=0
    )
    assert texts["test"].in_train == Overlap(exact=2, normalised=2, ngram=2, long=22, other_label=0)
    assert [(item.other_split, item.other) for item in found.findings] == [
        ("train", 0),
        ("train", 1),
        ("held_out", 2),
    ]


def test_pairs_are_compared_as_pairs() -> None:
    train, test = make_rows(1, 50, texts=2), make_rows(2, 10, texts=2)
    test.append(train[0])
    test.append(Row(0, train[1].texts[::-1], {"label": ["yes"]}))
    found = audit(PAIR_CLASSIFICATION, {"train": train, "test": test}).units["pairs"]["test"]
    assert found.in_train == Overlap(exact=1, normalised=1, ngram=2, long=12, other_label=0)


def test_questions_and_candidates_are_units_of_their_own() -> None:
    train = [
        Row(1, ("who?", "a"), {"label": ["1"]}, group=0),
        Row(2, ("who?", "b"), {"label": ["0"]}, group=0),
        Row(3, ("Who", "b"), {"label": ["1"]}, group=1),
    ]
    test = [
        Row(1, ("WHO", "a"), {"label": ["0"]}, group=0),
        Row(2, ("where", "a"), {"label": ["0"]}, group=1),
    ]
    units = audit(RANKING, {"train": train, "test": test}).units
    assert units["questions"]["train"].examples == 2
    assert units["questions"]["train"].repeated == Repeats(exact=0, normalised=1)
    assert units["candidates"]["train"].conflicting == Repeats(exact=0, normalised=2)
    questions, candidates = units["questions"]["test"], units["candidates"]["test"]
    assert questions.in_train == Overlap(exact=0, normalised=1, ngram=0, long=0, other_label=0)
    assert candidates.in_train == Overlap(exact=0, normalised=1, ngram=0, long=0, other_label=1)


def test_contexts_are_counted_once_for_their_questions() -> None:
    def ask(question: str, context: str, *answers: str) -> Row:
        return Row(0, (question, context), {"answers": list(answers)})

    train = [ask("q1", "c1", "x"), ask("q2", "c1", "x"), ask("q2", "c1", "y", "x"), ask("q1", "c2")]
    test = [ask("q9", "C1.", "x"), ask("q1", "c1", "x")]
    units = audit(SPAN, {"train": train, "test": test}).units
    assert units["contexts"]["train"].examples == 2
    assert units["questions"]["train"].conflicting == Repeats(exact=2, normalised=2)
    assert units["questions"]["test"].in_train is not None
    assert units["questions"]["test"].in_train.exact == 1
    assert units["contexts"]["test"].in_train is not None
    assert units["contexts"]["test"].in_train.normalised == 2


@pytest.mark.parametrize(
    ("kind", "same", "other"),
    [
        (TAGGING, {"tags": ["O", "B-A"]}, {"tags": ["O", "O"]}),
        (INTENT_SLOTS, {"label": ["x"], "tags": ["O"]}, {"label": ["x"], "tags": ["B-A"]}),
        (REGRESSION, {"label": ["3"]}, {"label": ["3.5"]}),
        (MULTI_LABEL, {"labels": ["a", "b"]}, {"labels": ["a"]}),
    ],
    ids=str,
)
def test_labels_of_every_kind_conflict(
    kind: Kind, same: dict[str, list[str]], other: dict[str, list[str]]
) -> None:
    again = dict(same)
    if "labels" in same:
        again["labels"] = same["labels"][::-1]
    if kind is REGRESSION:
        again["label"] = ["3.0"]
    rows = [Row(1, ("a b",), same), Row(2, ("a b",), again)]
    (unit,) = audit(kind, {"train": rows}).units.values()
    assert unit["train"].repeated.exact == 1
    assert unit["train"].conflicting == NONE
    (unit,) = audit(kind, {"train": [*rows, Row(3, ("a b",), other)]}).units.values()
    assert unit["train"].conflicting == Repeats(exact=3, normalised=3)


def test_rows_without_labels_never_conflict() -> None:
    train = [label("a", "x"), label("b", "x")]
    test = [Row(1, ("a",), {"label": None}), Row(2, ("a",), {"label": None})]
    found = audit(CLASSIFICATION, {"train": train, "test": test}).units["texts"]["test"]
    assert found.labelled == 0
    assert found.conflicting == NONE
    assert found.in_train == Overlap(exact=2, normalised=2, ngram=0, long=0, other_label=0)
    assert found.label_shift is None


def test_texts_of_punctuation_alone_stay_apart() -> None:
    assert read_text("!!!").normalised != read_text("...").normalised
    assert read_text("C++").normalised != read_text("C").normalised
    assert read_text("``\uff28\u00e9llo ''\u00a0World").normalised == "h\u00e9lloworld"


def test_thirteen_words_are_found_among_many_rows() -> None:
    """Train is looked up in parts; a part must not forget the one before."""
    index = NgramIndex()
    draw = np.random.default_rng(1)
    keys = draw.integers(1 << 63, size=(40, 10_000), dtype=np.uint64)
    for row in (3, 39):
        index.add("test", keys[row, 5000:5001])
    index.add("test", np.array([7], dtype=np.uint64))
    index.close()
    for row in keys:
        index.look_up(row)
    assert index.find_in_train("test").tolist() == [3, 39, -1]


def test_shifts_are_those_of_scipy() -> None:
    labels = compare_labels({"a": 50, "b": 50}, {"a": 20, "b": 80})
    assert labels is not None
    assert labels.distance == pytest.approx(0.3)
    # chi-squared = 2 * 15^2 / 35 + 2 * 15^2 / 65 = 19.78 with one degree of freedom
    assert labels.p == pytest.approx(8.7e-6, rel=0.01)
    numbers = compare_numbers(np.arange(100.0), np.arange(100.0) + 30)
    assert numbers is not None
    assert numbers.distance == pytest.approx(0.3)
    assert numbers.p < 0.001
    single = compare_numbers(np.array([1.0]), np.array([2.0]))
    assert single is not None
    assert (single.distance, single.p) == (1.0, 1.0)
    rare = compare_labels({"a": 1000, "b": 1, "c": 1}, {"a": 1000, "d": 1, "e": 1})
    assert rare is not None
    assert rare.p > 0.5


def write_task(root: Path, rows: Mapping[str, Sequence[tuple[str, str]]]) -> Path:
    """Write a processed task of texts."""
    folder = root / "data" / "processed" / "trial"
    folder.mkdir(parents=True)
    for split, pairs in rows.items():
        table = {
            "id": range(len(pairs)),
            "text": [text for text, _ in pairs],
            "tokens": [text.split() for text, _ in pairs],
            "label": [value for _, value in pairs],
        }
        pq.write_table(pa.table(table), folder / f"{split}.parquet")
    manifest = {
        "task": "trial",
        "kind": "classification",
        "labels": ["a", "b"],
        "metrics": ["accuracy"],
        "select_split": "dev",
        "report_split": "dev",
        "scheme": None,
        "splits": {split: {"sha256": split} for split in rows},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def test_a_task_is_audited_and_its_counts_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = "a text of somebody else"
    folder = write_task(tmp_path, {"train": [(secret, "a"), ("b", "b")], "dev": [(secret, "b")]})
    monkeypatch.chdir(tmp_path)
    main(["data", "audit", "trial", "--keep", "--json"])
    (found,) = json.loads(capsys.readouterr().out)
    assert found["findings"] == [
        {
            "fault": "in train, other label",
            "found": {"split": "dev", "place": 0, "texts": [secret], "label": "b"},
            "other": {"split": "train", "place": 0, "texts": [secret], "label": "a"},
        }
    ]
    kept = (tmp_path / "results" / "audit" / "trial.json").read_text()
    assert "somebody" not in kept
    record = TaskAudit.model_validate_json(kept)
    assert record.data.startswith("sha256:")
    assert record.units == audit_task(folder).units


def test_files_of_the_user_are_audited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.tsv").write_text("text\tlabel\nnice soup\tfood\nnice bed\troom\nNice bed!\tfood\n")
    Path("test.tsv").write_text("text\tlabel\nnew park\troom\nnice soup\tfood\n")
    main(["data", "audit", "train.tsv", "test.tsv", "--kind", "classification"])
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "texts train.tsv test.tsv" in lines
    assert "repeated 0 / 1 0 / 0" in lines
    assert "conflicting labels 0 / 2 0 / 0" in lines
    assert "in train 1 / 1" in lines
    assert "conflicting label train.tsv:4 food Nice bed!" in lines
    assert "in train test.tsv:3 food nice soup" in lines


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train.tsv"], "neither --kind nor --model"),
        (["absent"], "neither a data file nor a processed task"),
        (["absent.tsv", "--kind", "classification"], "absent.tsv"),
        (["train.tsv", "train.tsv", "--kind", "classification"], "a file twice"),
        (["one.zip", "two.zip", "--kind", "classification"], "a file twice"),
        (["a_group"], "found a group of tasks, expected a task with examples"),
        (["train.tsv", "--kind", "classification", "--keep"], "remove --keep"),
        (["train.tsv", "--kind", "classification", "--shown", "-1"], "expected 0 or more"),
    ],
)
def test_a_mistake_is_one_paragraph(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.tsv").write_text("text\tlabel\nnice soup\tfood\nnice bed\troom\n")
    for name in ("one.zip", "two.zip"):
        with zipfile.ZipFile(name, "w") as archive:
            archive.write("train.tsv")
    write_json(Path("data/processed/a_group/manifest.json"), {"kind": "group"})
    with pytest.raises(SystemExit) as caught:
        main(["data", "audit", *arguments])
    assert caught.value.code == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert message in output.err


def test_the_tasks_of_all_tables_are_audited() -> None:
    params, tables = read_params(ROOT / "params.yaml"), sorted((ROOT / "results").glob("*.json"))
    assert tables
    for path in tables:
        texts = render_audits(read_results(path.stem, ROOT).cells, params, ROOT)
        assert texts[0].startswith("## "), path.stem
        assert not any(text.startswith("Not audited") for text in texts), path.stem


def test_a_report_says_what_is_not_audited_or_was_audited_with_other_data(tmp_path: Path) -> None:
    params = read_params(ROOT / "params.yaml")
    cells = read_results("wikiqa", ROOT).cells
    texts = render_audits(cells, params, tmp_path)
    assert texts[1] == "Not audited: wikiqa; run `reglue data audit wikiqa --keep`."
    kept = json.loads((ROOT / "results" / "audit" / "wikiqa.json").read_text())
    path = tmp_path / "results" / "audit" / "wikiqa.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(kept | {"data": "sha256:other"}))
    assert "another digest than what was audited: arci (wikiqa), " in "".join(
        render_audits(cells, params, tmp_path)
    )
    path.write_text(json.dumps(kept))
    assert "another digest" not in "".join(render_audits(cells, params, tmp_path))
    stale = cells["cnn"].model_copy(update={"data": {"wikiqa": "sha256:older"}})
    text = "".join(render_audits(cells | {"cnn": stale}, params, tmp_path))
    assert "than what was audited: cnn (wikiqa); train" in text
    path.write_text("{}")
    with pytest.raises(DataError, match=r"wikiqa\.json: is not what an audit writes"):
        render_audits(cells, params, tmp_path)
