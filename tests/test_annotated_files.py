"""Exports of annotation tools and datasets of Hugging Face: read, guessed and predicted."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from nlp_core.cli import main
from nlp_core.config.dataset import Kind
from nlp_core.config.user_data import DataConfig
from nlp_core.data.guess import count_rows, guess_data, guess_texts
from nlp_core.data.readers.json_array import read_array
from nlp_core.data.readers.user import UserExample, read_examples
from nlp_core.data.token_guess import Guess
from nlp_core.errors import DataError
from nlp_core.kinds import KINDS, LABEL, LABELS, TAGS

TEXT = "Ada saw Rome"
ENTITIES = ["B-PER", "O", "B-LOC"]
SPANS = [{"start": 0, "end": 3, "label": "PER"}, {"start": 8, "end": 12, "label": "LOC"}]
PLACED = [[0, 3, "PER"], [8, 12, "LOC"]]


def dump_lines(path: Path, rows: Sequence[object]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def dump(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value))
    return path


def read(path: Path, kind: Kind, **changes: Any) -> tuple[Guess, list[UserExample]]:
    guess = guess_data(path, KINDS.get(kind))
    data = DataConfig.model_validate(guess.data.model_dump(mode="json") | changes)
    return guess, list(read_examples(path, data))


def write_arrow(folder: Path, table: pa.Table, features: dict[str, object]) -> Path:
    """Write a split as `save_to_disk` does."""
    folder.mkdir(parents=True)
    note = {"huggingface": json.dumps({"info": {"features": features}})}
    table = table.replace_schema_metadata(note)
    name = "data-00000-of-00001.arrow"
    with pa.OSFile(str(folder / name), "wb") as file, pa.ipc.new_stream(file, table.schema) as out:
        out.write_table(table)
    dump(folder / "state.json", {"_data_files": [{"filename": name}], "_split": "train"})
    dump(folder / "dataset_info.json", {"features": features})
    return folder


def test_only_accepted_rows_of_prodigy_are_read(tmp_path: Path) -> None:
    tokens = [{"text": "Ada", "start": 0, "end": 3, "id": 0}]
    row = {"text": TEXT, "spans": SPANS, "tokens": tokens, "_input_hash": 7, "meta": {"a": 1}}
    answers = ["accept", "reject", "accept", "ignore"]
    path = dump_lines(tmp_path / "a.jsonl", [row | {"answer": answer} for answer in answers])
    guess, found = read(path, "tagging")
    assert guess.section["where"] == {"answer": "accept"}
    assert (guess.data.texts, guess.data.label) == (["text"], "spans")
    assert [item.targets[TAGS] for item in found] == [ENTITIES] * 2
    assert len(list(read_examples(path, guess.data, labelled=False))) == 4


@pytest.mark.parametrize(
    ("rows", "labels"),
    [
        ([{"accept": ["bad"]}, {"accept": ["good"]}], ["bad", "good"]),
        ([{"label": "bad"}, {"label": "good"}], ["bad", "good"]),
        ([{"label": "bad"}, {"label": "bad", "answer": "reject"}], ["accept", "reject"]),
    ],
)
def test_labels_of_texts_of_prodigy(
    tmp_path: Path, rows: list[dict[str, object]], labels: list[str]
) -> None:
    usual = {
        "text": "so it is today",
        "options": [{"id": "bad"}],
        "_view_id": "x",
        "answer": "accept",
    }
    path = dump_lines(tmp_path / "a.jsonl", [usual | row for row in rows])
    _, found = read(path, "classification")
    assert [item.targets[LABEL] for item in found] == [[label] for label in labels]


@pytest.mark.parametrize("key", ["label", "entities", "labels"])
def test_entities_of_doccano(tmp_path: Path, key: str) -> None:
    places = [{"id": 1, "label": x, "start_offset": s, "end_offset": e} for s, e, x in PLACED]
    cell: object = places if key == "entities" else PLACED
    row = {"id": 3, "text": TEXT, key: cell, "relations": [], "Comments": []}
    _, found = read(dump_lines(tmp_path / "a.jsonl", [row] * 2), "tagging")
    assert found[0].targets[TAGS] == ENTITIES


def test_labels_of_doccano_are_lists(tmp_path: Path) -> None:
    rows = [
        {"id": idx, "text": "so it is", "label": [["bad"], ["good"]][idx % 2]} for idx in (1, 2)
    ]
    path = dump_lines(tmp_path / "a.jsonl", rows)
    assert [item.targets[LABEL] for item in read(path, "classification")[1]] == [["good"], ["bad"]]
    assert read(path, "multi_label")[1][0].targets[LABELS] == ["good"]
    rows[0]["label"] = ["bad", "good"]
    with pytest.raises(
        DataError, match=r"line 1: found \['bad', 'good'\] in 'label', expected a l"
    ):
        read(dump_lines(path, rows), "classification")


def make_task(*answers: dict[str, object], **more: object) -> dict[str, object]:
    annotation = {"result": [{"from_name": "a", "to_name": "text"} | item for item in answers]}
    return {"id": 1, "data": {"text": TEXT}, "annotations": [annotation | more], "predictions": []}


STARS = {"type": "rating", "from_name": "stars", "value": {"rating": 4}}


def test_choices_of_one_control_are_joined(tmp_path: Path) -> None:
    """Label Studio writes a result for each region that an annotator marked."""
    moods = [
        {"type": "choices", "from_name": "mood", "value": {"choices": [mood]}}
        for mood in ("calm", "sad")
    ]
    ((_, columns),) = read_array(dump(tmp_path / "a.json", [make_task(*moods)]))
    assert columns["mood"] == ["calm", "sad"]


def test_the_answer_of_an_annotator_is_no_label(tmp_path: Path) -> None:
    moods = [
        {"type": "choices", "from_name": "mood", "value": {"choices": [mood]}}
        for mood in ("calm", "sad")
    ]
    texts = [{"data": {"text": f"{TEXT} on day {idx}"}} for idx in (1, 2)]
    tasks = [make_task(mood) | text for mood, text in zip(moods, texts, strict=True)]
    path = dump(tmp_path / "a.json", tasks)
    assert guess_data(path, KINDS.get("classification")).data.label == "mood"


def test_tasks_of_label_studio(tmp_path: Path) -> None:
    places = [
        {"type": "labels", "value": {"start": s, "end": e, "text": TEXT[s:e], "labels": [x]}}
        for s, e, x in PLACED
    ]
    relation = {"type": "relation", "from_id": "x", "to_id": "y", "from_name": None}
    mood = {"type": "choices", "from_name": "mood", "value": {"choices": ["calm"]}}
    stars = STARS
    full, none = make_task(*places, relation, mood, stars), make_task(mood, stars)
    none["annotations"][0]["ground_truth"] = True  # type: ignore[index]
    none["annotations"] = [*full["annotations"], *none["annotations"]]  # type: ignore[misc]
    path = dump(tmp_path / "a.json", [full, none, make_task(was_cancelled=True)])
    guess, found = read(path, "tagging")
    assert (guess.data.format, guess.data.where) == ("json", {"answer": "accept"})
    assert [item.targets[TAGS] for item in found] == [ENTITIES, ["O"] * 3]
    assert [item.targets for item in read(path, "regression", label="stars")[1]] == [
        {LABEL: ["4"]}
    ] * 2
    assert read(path, "classification", label="mood")[1][0].targets[LABEL] == ["calm"]
    assert guess_texts(path).texts == ["text"]
    assert count_rows(path, guess.data) == 3


def test_json_min_of_label_studio_and_a_plain_array(tmp_path: Path) -> None:
    text = f"{TEXT} today"
    rows = [{"text": text, "mood": {"choices": ["calm"]}, "id": 1}, {"text": text, "mood": "sad"}]
    _, found = read(dump(tmp_path / "a.json", rows), "classification", label="mood")
    assert [item.targets[LABEL] for item in found] == [["calm"], ["sad"]]
    spans = [{"text": TEXT, "label": [{"start": 0, "end": 3, "text": "Ada", "labels": ["PER"]}]}]
    assert read(dump(tmp_path / "b.json", spans), "tagging")[1][0].targets[TAGS][0] == "B-PER"


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ({"a": [1]}, "found 1 column .*, expected 2 at least"),
        ([1], r"found other JSON, expected an array of objects"),
        (
            [make_task(), {"data": 1}],
            "task 2: found the keys data, expected a task of Label Studio",
        ),
        ([make_task({"value": 3})], "task 1: found the result"),
        ([make_task(), {"data": {}, "annotations": [1]}], "task 2: found the annotation 1"),
        ([make_task(result="x")], "task 1: found 'x' in 'result'"),
        ([make_task(STARS, STARS)], "task 1: found two answers in 'stars'"),
    ],
)
def test_other_json_is_an_error(tmp_path: Path, value: object, wanted: str) -> None:
    with pytest.raises(DataError, match=wanted):
        read(dump(tmp_path / "a.json", value), "tagging")


def write_brat(folder: Path, notes: str, text: str = f"Ada\u00e9\n\n{TEXT}\r\nso\n") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "a.txt").write_bytes(text.encode())
    (folder / "a.ann").write_text(notes, newline="")
    return folder


@pytest.mark.parametrize("orient", ["columns", "index", "split", "list", "records"])
def test_a_table_that_pandas_writes_as_json_has_its_rows(tmp_path: Path, orient: Any) -> None:
    frame = pd.DataFrame({"text": ["good", "bad", "fine"], "label": ["pos", "neg", "pos"]})
    path, wanted = tmp_path / "a.json", frame.to_dict("records")
    by_list = json.dumps(frame.to_dict("list"))
    path.write_text(by_list if orient == "list" else frame.to_json(orient=orient))
    assert [row for _, row in read_array(path)] == wanted
    found = [item.targets[LABEL] for item in read(path, "classification")[1]]
    assert found == [["pos"], ["neg"], ["pos"]]


@pytest.mark.parametrize(
    "value",
    [
        {"columns": ["text", "label"], "data": [["good"], ["bad", "neg"]]},
        {"text": ["good", "bad"], "label": ["pos"]},
        {"en": {"text": "good", "label": "pos"}, "de": {"text": "gut", "label": "pos"}},
    ],
)
def test_an_object_that_is_no_table_is_an_error(tmp_path: Path, value: object) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(value))
    with pytest.raises(DataError, match="found other JSON"):
        [*read_array(path)]


def test_a_folder_of_brat_is_read_line_by_line(tmp_path: Path) -> None:
    notes = "T2\tLOC 14 18\tRome\nT1\tPER 6 9\tAda\nR1\tsaw Arg1:T1 Arg2:T2\n#1\tNote T1\tx\n"
    folder = write_brat(tmp_path / "brat", notes)
    (folder / "b.txt").write_text("no entity\n")
    (folder / "b.ann").write_text("")
    guess, found = read(folder, "tagging")
    assert (guess.data.format, guess.data.label) == ("brat", "entities")
    assert [item.targets[TAGS] for item in found] == [["O"], ENTITIES, ["O"], ["O", "O"]]
    assert [item.line() for item in found] == [1, 3, 4, 1]
    (folder / "b.ann").unlink()
    with pytest.raises(DataError, match=r"b.txt: line 1: found no column 'entities'"):
        read(folder, "tagging")


@pytest.mark.parametrize(
    ("notes", "wanted"),
    [
        ("T1\tPER 7 10\tAda\n", "where the text has 'da'; the offsets seem to be 1 too large"),
        ("T1\tPER 5 8\tAda\n", "the offsets seem to be 1 too small"),
        ("T1\tPER 6 8\tAda\n", r"a.ann: line 1: found 'Ada' at 6 8, where the text has 'Ad'"),
        ("T1\tPER 6 9;14 18\tAda Rome\n", "in several pieces, expected one"),
        ("T1\tPER 6\tAda\n", "expected T1, a tab, LABEL START END"),
        ("T1\tPER 0 9\tAda\u00e9 Ada\n", "found an entity in two lines of the text"),
        ("T1\tPER 999 1000\tA\n", "where the text has ''"),
    ],
)
def test_wrong_entities_of_brat_are_errors_with_their_line(
    tmp_path: Path, notes: str, wanted: str
) -> None:
    with pytest.raises(DataError, match=wanted):
        read(write_brat(tmp_path / "brat", notes), "tagging")


def test_columns_of_conllu_have_names(tmp_path: Path) -> None:
    rows = ["# sent_id = 1", "1-2\tdon't" + "\t_" * 8]
    rows += [
        "1\tdo\tdo\tAUX\tVB\t_\t0\troot\t_\t_",
        "2\tn't\tnot\tPART\tRB\t_\t1\tadvmod\t_\t_",
        "",
    ]
    path = tmp_path / "a.conllu"
    path.write_text("\n".join(rows) + "\n")
    for label, tags in {"upos": ["AUX", "PART"], "xpos": ["VB", "RB"], "deprel": ["root", "advmod"],
                        "4": ["AUX", "PART"]}.items():  # fmt: skip
        guess, found = read(path, "tagging", label=label)
        assert (found[0].texts, found[0].targets[TAGS]) == ([["do", "n't"]], tags)
    assert (guess.data.texts, guess.data.label) == (["form"], "upos")
    path.write_text("\n".join(rows).replace("AUX", "_").replace("PART", "_") + "\n")
    assert guess_data(path, KINDS.get("tagging")).data.label == "xpos"


def test_a_dataset_of_hugging_face_has_its_class_names(tmp_path: Path) -> None:
    table = pa.table({"text": [TEXT] * 3, "label": [1, 0, 1]})
    names = {"label": {"names": ["bad", "good"], "_type": "ClassLabel"}}
    folder = write_arrow(tmp_path / "set" / "train", table, names)
    guess, found = read(folder, "classification")
    assert guess.data.format == "arrow"
    assert [item.targets[LABEL] for item in found] == [["good"], ["bad"], ["good"]]
    assert read(next(folder.glob("*.arrow")), "classification")[1] == found
    assert guess_texts(folder).texts == ["text"]
    dump(folder.parent / "dataset_dict.json", {"splits": ["train"]})
    with pytest.raises(DataError, match="found the splits train, expected one; name its folder"):
        read(folder.parent, "classification")


@pytest.mark.parametrize("sequence", ["Sequence", "List"])
def test_tags_of_hugging_face_have_their_names(tmp_path: Path, sequence: str) -> None:
    table = pa.table({"tokens": [TEXT.split()] * 2, "ner_tags": [[1, 0, 2]] * 2})
    inner = {"names": ["O", "B-PER", "B-LOC"], "_type": "ClassLabel"}
    folder = write_arrow(tmp_path / "a", table, {"ner_tags": {"feature": inner, "_type": sequence}})
    assert read(folder, "tagging")[1][0].targets[TAGS] == ENTITIES


def test_a_damaged_dataset_is_an_error(tmp_path: Path) -> None:
    names = {"label": {"names": ["bad"], "_type": "ClassLabel"}}
    folder = write_arrow(tmp_path / "a", pa.table({"text": ["a"], "label": [1]}), names)
    with pytest.raises(DataError, match="row 1: 'label': found 1, expected a class from 0 to 0"):
        read(folder, "classification")
    (folder / "state.json").write_text('{"_data_files": [{"filename": "../b.arrow"}]}')
    with pytest.raises(DataError, match=r"state.json: found no names of data files"):
        read(folder, "classification")


@pytest.mark.parametrize("form", ["brat", "json", "arrow"])
def test_predictions_of_other_formats_are_json_lines(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"text": TEXT, "entities": SPANS}] * 12
    source = dump(tmp_path / "a.json", rows)
    if form == "brat":
        source = write_brat(tmp_path / "b", "T1\tPER 0 3\tAda\n", f"{TEXT}\n" * 12)
    elif form == "arrow":
        source = write_arrow(tmp_path / "c", pa.Table.from_pylist(rows), {})
    main(["new", "tagging", "--train", str(source), "-o", "m.json"])
    small = [
        "--epochs",
        "1",
        "--set",
        "layers.word.dim=16",
        "--set",
        "layers.lstm.hidden_dim=16",
    ]
    main(["train", "m.json", "--train", str(source), "-o", "out", *small])
    main(["predict", "out", "--data", str(source), "-o", "found.jsonl"])
    found = [json.loads(line) for line in Path("found.jsonl").read_text().splitlines()]
    assert len(found) == 12
    assert {"text", "entities", "prediction", "confidence"} <= {*found[0]}
    main(["test", "out", "--data", str(source)])
    main(["data", "audit", str(source), "--model", "m.json"])
