"""The user's files with entities as character offsets: read, trained on, predicted."""

import datetime
import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlp_core.cli import main
from nlp_core.config.user_data import DataConfig
from nlp_core.data.guess import guess_data
from nlp_core.data.readers.entities import EntityError, find_tokens, parse_entities
from nlp_core.data.readers.user import read_examples
from nlp_core.data.tagging_scheme import write_tags
from nlp_core.errors import DataError
from nlp_core.kinds import TAGGING, TAGS
from nlp_core.prediction.predictor import Predictor
from nlp_core.prediction.trained_model import TrainedModel
from reglue_runtime import load
from reglue_runtime.decoding import Span, find_spans
from reglue_runtime.text import locate_plain_words
from tests.tiny_encoder import write_encoder
from tests.user_commands import fail
from tests.user_files import read_rows

pytestmark = pytest.mark.usefixtures("place")
SMALL = ["--set", "layers.word.dim=16", "--set", "layers.lstm.hidden_dim=16"]
FORCE = "--force"
LONG = [*SMALL, "--epochs", "12", "--lr", "0.02", "--batch-size", "4"]
CITIES = ["Rome", "Oslo", "New York", "Kyiv", "Bonn"]
NAMES = ["Ada Byron", "Grace", "Alan"]


def make_rows(rows: int = 60) -> list[dict[str, Any]]:
    """Return texts with a person and a city each, and where they stand."""
    draw, found = random.Random(3), []
    for number in range(rows):
        name, city = draw.choice(NAMES), draw.choice(CITIES)
        text = draw.choice(["{} flew to {}.", "did {} (again!) see {}?", "{}'s trip to {}"])
        text = text.format(name, city)
        places = [(text.index(name), name, "PER"), (text.index(city), city, "LOC")]
        spans = [[start, start + len(word), label] for start, word, label in places]
        intent = "ask" if text.endswith("?") else "tell"
        found.append({"id": number, "text": text, "entities": spans, "intent": intent})
    return found


def write_rows(name: str, rows: list[dict[str, Any]]) -> Path:
    """Write rows in the form that the suffix names, entities as its tools write them."""
    path = Path(name)
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".parquet":
        objects = [
            row | {"entities": [{"start": s, "end": e, "label": x} for s, e, x in row["entities"]]}
            for row in rows
        ]
        pq.write_table(pa.Table.from_pylist(objects), path)
    else:
        lines = ["id\ttext\tentities\tintent"]
        for row in rows:
            spans = ",".join(":".join(map(str, span)) for span in row["entities"])
            lines.append(f"{row['id']}\t{row['text']}\t{spans}\t{row['intent']}")
        path.write_text("\n".join(lines) + "\n")
    return path


def list_found(value: Any) -> list[list[Any]]:
    """Return predicted entities as `make_rows` writes them."""
    if isinstance(value, str):
        parts = [part.split(":") for part in value.split(",") if part]
        return [[int(start), int(end), label] for start, end, label in parts]
    return [[item["start"], item["end"], item["label"]] for item in value]


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".tsv"])
def test_entities_are_learnt_and_predicted_as_they_stand(suffix: str) -> None:
    rows = make_rows()
    path = write_rows(f"a{suffix}", rows)
    main(["new", "tagging", "--train", str(path), "-o", "m.json"])
    section = json.loads(Path("m.json").read_text())["data"]
    assert (section["scheme"], section["tokens"], section["texts"], section["label"]) == (
        "spans",
        "plain_words",
        ["text"],
        "entities",
    )
    main(["train", "m.json", "--train", str(path), "-o", "out", *LONG])
    assert json.loads(Path("out/metrics.json").read_text())["metrics"]["dev"]["f1"] > 95
    plain = [{key: value for key, value in row.items() if key != "entities"} for row in rows]
    bare = write_rows(f"b{suffix}", [row | {"entities": []} for row in plain])
    main(["predict", "out", "--data", str(bare), "-o", f"p{suffix}"])
    said = read_rows(Path(f"p{suffix}"))
    assert [list_found(row["prediction"]) for row in said] == [row["entities"] for row in rows]
    main(["test", "out", "--data", str(path)])
    main(["export", "out", "--data", str(path), "--to", "bundle"])
    (told,) = load("bundle").predict([rows[0]["text"]])
    (found,) = Predictor(TrainedModel.open("out")).predict([rows[0]["text"]])
    assert told["tags"] == found.prediction
    assert found.entities == [Span(*span) for span in rows[0]["entities"]]
    assert isinstance(found.confidence, list)
    assert [0 < chance <= 1 for chance in found.confidence] == [True] * len(found.entities)


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".tsv"])
def test_what_is_predicted_can_be_measured_against(
    suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_rows(f"a{suffix}", make_rows(20))
    main(["new", "tagging", "--train", str(path), "-o", "m.json"])
    main(["train", "m.json", "--train", str(path), "-o", "out", *SMALL, "--epochs", "1"])
    main(["predict", "out", "--data", str(path), "-o", f"p{suffix}"])
    capsys.readouterr()
    call = ["test", "out", "--data", f"p{suffix}", "--set", "data.label=prediction", "--json"]
    main(call)
    assert json.loads(capsys.readouterr().out)["accuracy"] == 100


def test_intents_stand_beside_entities() -> None:
    path = write_rows("a.jsonl", make_rows())
    main(["new", "intent_slots", "--train", str(path), "-o", "m.json"])
    section = json.loads(Path("m.json").read_text())["data"]
    assert (section["label"], section["tags"], section["scheme"]) == ("intent", "entities", "spans")
    main(["train", "m.json", "--train", str(path), "-o", "out", *LONG])
    main(["predict", "out", "--data", str(path), "-o", "p.jsonl"])
    rows = read_rows(Path("p.jsonl"))
    right = [
        row["prediction"] == row["intent"] and list_found(row["predicted_tags"]) == row["entities"]
        for row in rows
    ]
    assert sum(right) / len(right) > 0.9


def test_an_encoder_reads_such_texts_too(place: Path) -> None:
    encoder = write_encoder(place)
    rows = [
        {"text": f"the {sign} film!", "spans": [{"start": 4, "end": 4 + len(sign), "label": label}]}
        for sign, label in [("good", "P"), ("bad", "N"), ("great", "P"), ("awful", "N")] * 12
    ]
    path = write_rows("a.jsonl", rows)
    main(["new", "tagging", "--train", str(path), "-o", "m.json", "--encoder", str(encoder)])
    quick = ["--lr", "0.02", "--epochs", "10", "--batch-size", "8"]
    main(["train", "m.json", "--train", str(path), "-o", "out", "--init", str(encoder), *quick])
    said = Predictor(TrainedModel.open("out")).predict(["the bad film!", "!", ""])
    assert said[0].entities == [Span(4, 7, "N")]
    assert said[2].entities == []


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        ([[0, 4, "PER"], [9, 12, "LOC"]], [(0, 4, "PER"), (9, 12, "LOC")]),
        ([{"start_offset": 0, "end_offset": 4, "label": "PER", "id": 7}], [(0, 4, "PER")]),
        ([{"start": 0, "end": 4, "labels": ["PER"], "text": "Rome"}], [(0, 4, "PER")]),
        ("0:4:PER, 9:12:a:b", [(0, 4, "PER"), (9, 12, "a:b")]),
        ("", []),
        (None, []),
        ([], []),
    ],
)
def test_what_tools_write_is_read(cell: object, found: list[tuple[int, int, str]]) -> None:
    assert parse_entities(cell) == found


@pytest.mark.parametrize(
    "cell",
    [
        *(7, {"a": 1}, "0-4 PER", "0:4", [[0, 4]], [[0, 4, ""]], [[4, 0, "PER"]], [[-1, 4, "PER"]]),
        *([[0.5, 4, "PER"]], [["O", "B-PER"]], ["O"], [{"start": 0, "label": "PER"}], [[0, 4, 7]]),
        *([{"start": 0, "end": 4, "labels": ["a", "b"]}], [[True, 4, "PER"]], [[0, 4, "PER", 1]]),
        *([[0, "9" * 5000, "PER"]], "0:" + "9" * 5000 + ":PER"),
        [{"start": datetime.date(2026, 1, 2), "end": 4, "label": "PER"}],
    ],
)
def test_what_is_no_entity_is_refused(cell: object) -> None:
    with pytest.raises(EntityError, match="expected entities"):
        parse_entities(cell)


def test_an_entity_of_no_character_is_an_error_that_names_inclusive_ends() -> None:
    with pytest.raises(EntityError, match="no character; the ends seem to be inclusive; add 1 to"):
        parse_entities([[3, 3, "PER"]])


def test_borders_in_white_space_do_not_count_and_those_inside_of_tokens_do() -> None:
    text = "see  New York-based 10mg"
    offsets = locate_plain_words(text)
    found = find_tokens(text, offsets, [Span(3, 13, "LOC")])
    assert (found.spans, found.borders["inside"]) == ([Span(1, 3, "LOC")], 0)
    found = find_tokens(text, offsets, [Span(20, 22, "N")])
    assert (found.spans, found.borders["inside"]) == ([Span(5, 6, "N")], 1)
    with pytest.raises(EntityError, match="'mg', which shares a token with the entity before it"):
        find_tokens(text, offsets, [Span(22, 24, "U"), Span(20, 22, "N")])
    with pytest.raises(EntityError, match="up to character 25 of 24; offsets count from 0"):
        find_tokens(text, offsets, [Span(20, 25, "N")])
    with pytest.raises(EntityError, match="with a token in it"):
        find_tokens(text, offsets, [Span(3, 5, "N")])


@pytest.mark.parametrize(
    ("more", "later", "advice"),
    [
        (0, -1, "the ends seem to be inclusive; add 1 to each end"),
        (-1, -1, "all offsets seem to be 1 too small; add 1 to each start and end"),
        (1, 1, "all offsets seem to be 1 too large; subtract 1 from each start and end"),
    ],
)
def test_shifted_offsets_are_reported_with_their_repair(
    more: int, later: int, advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = make_rows(20)
    for row in rows:
        row["text"] = f"\u2014{row['text']} ok"
        row["entities"] = [[s + 1 + more, e + 1 + later, x] for s, e, x in row["entities"]]
    path = write_rows("a.jsonl", rows)
    main(["new", "tagging", "--train", str(path), "-o", "m.json"])
    assert advice in " ".join(capsys.readouterr().out.split())
    for _ in range(2):  # from the file, and from the cache
        main(["train", "m.json", "--train", str(path), "-o", "out", *SMALL, "--epochs", "1", FORCE])
        found = "40 of 40 entities (100%) begin or end inside a token, the first in line 1"
        shown = capsys.readouterr().err
        assert found in shown
        assert advice in shown


def test_fitting_offsets_before_a_sign_are_not_taken_for_shifted_ones(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rows = [{"text": "Rome.", "entities": [[0, 4, "LOC"]]}] * 9
    rows.append({"text": "Rome.", "entities": [[0, 3, "LOC"]]})
    guess = guess_data(write_rows("a.jsonl", rows), TAGGING)
    found = "1 of 10 entities (10%) begin or end inside a token, the first in line 10, and"
    assert guess.doubts["scheme"] == f"{found} are widened to whole tokens"
    assert not caplog.text


def test_both_characters_of_a_line_end_in_a_cell_count(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    row = '"Anna left.\r\nSo.\r\nBonn is big.","0:4:PER,17:21:LOC"\n'
    path.write_bytes(f"text,entities\n{row * 2}".encode())
    example = next(read_examples(path, guess_data(path, TAGGING).data))
    assert [*zip(example.texts[0], example.targets[TAGS], strict=True)][-4:] == [
        *(("Bonn", "B-LOC"), ("is", "O"), ("big", "O"), (".", "O"))
    ]


def test_wrong_entities_are_refused_with_their_line(capsys: pytest.CaptureFixture[str]) -> None:
    rows = make_rows(4)
    data = DataConfig(
        kind="tagging",
        format="jsonl",
        texts=["text"],
        label="entities",
        scheme="spans",
        tokens="plain_words",
    )
    rows[2]["entities"] = [[0, 999, "PER"]]
    path = write_rows("a.jsonl", rows)
    with pytest.raises(DataError, match=r"a.jsonl: line 3: 'entities': found an entity up to"):
        list(read_examples(path, data))
    rows[2]["entities"] = [[0, 2, "PER"]]
    rows[3]["entities"] = []
    examples = list(read_examples(write_rows("a.jsonl", rows), data))
    assert sum(example.borders["inside"] for example in examples) == 1
    assert set(examples[3].targets[TAGS]) == {"O"}
    words = write_rows("w.jsonl", make_rows(20))
    main(["new", "tagging", "--train", str(words), "-o", "m.json"])
    train = ["train", "m.json", "--train", str(words), "-o", "out", "--epochs", "1"]
    message = fail(capsys, *train, "--set", "data.tokens=words")
    assert "m.json: data.tokens: " in message
    main([*train, *SMALL])
    call = ["predict", "out", "--data", str(words), "-o", "p.jsonl", "--confidence-of", "B-PER"]
    assert "--confidence-of: found a model of entities" in fail(capsys, *call)


def test_times_are_no_entities_and_tags_stay_tags() -> None:
    lines = ["text\ttime\ttags"] + ["fly to Rome\t12:30:45\tO O B-city"] * 12
    Path("a.tsv").write_text("\n".join(lines) + "\n")
    assert guess_data(Path("a.tsv"), TAGGING).data.scheme == "BIO"
    rows = [{"entities": [[0, 3, "V"]], "other": {"a": 1}}] * 4
    with pytest.raises(DataError, match="expected a text with them"):
        guess_data(write_rows("b.jsonl", rows), TAGGING)


@given(st.lists(st.sampled_from(["O", "B-x", "I-x", "E-x", "S-x", "B-y", "I-y"]), max_size=8))
def test_any_tags_give_spans_that_do_not_overlap(tags: list[str]) -> None:
    spans = find_spans(tags)
    assert all(start < end for start, end, _ in spans)
    assert all(before.end <= after.start for before, after in pairwise(spans))
    covered = [idx for start, end, _ in spans for idx in range(start, end)]
    assert covered == [idx for idx, tag in enumerate(tags) if tag != "O"]
    for scheme in ("BIO", "BIOES"):
        assert find_spans(write_tags(spans, len(tags), scheme)) == spans
