"""Tags in the user's files: their scheme, their columns, and what is an error."""

import json
from pathlib import Path

import pytest

from nlp_core.data.guess import guess_data
from nlp_core.data.readers.user import read_examples
from nlp_core.errors import DataError
from nlp_core.kinds import TAGGING
from tests.user_files import data, put, store, write_conll


@pytest.mark.parametrize("key", ["", "label"])
def test_a_column_of_tags_without_a_name_is_an_error(tmp_path: Path, key: str) -> None:
    rows = [{"text": "a b", key: ["O", "B-X"]}, {"text": "c", key: ["B-X"]}]
    path = put(tmp_path / "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    if key:
        assert guess_data(path, TAGGING).data.label == key
        return
    with pytest.raises(DataError, match="found a column without a name"):
        guess_data(path, TAGGING)


def test_texts_of_entities_without_a_name_are_an_error(tmp_path: Path) -> None:
    path = put(tmp_path / "a.jsonl", '{"": "Anna left", "entities": [[0, 4, "PER"]]}\n')
    with pytest.raises(DataError, match="found a column without a name"):
        guess_data(path, TAGGING)


@pytest.mark.parametrize("scheme", ["BIO", "IOB1", "BIOES", "BILOU", "plain"])
def test_the_scheme_of_tags_is_detected(tmp_path: Path, scheme: str) -> None:
    guess = guess_data(write_conll(tmp_path / "a.txt", scheme), TAGGING)
    assert guess.data.scheme == scheme
    assert guess.data.format == "conll"


@pytest.mark.parametrize(
    ("tags", "wanted"),
    [
        ("B-PER I-PER O I-LOC O", ["line 4: the tag I-LOC continues", "(not IOB1)", "IOB1, which"]),
        ("B-PER O LOC O O", ["'B-PER' on line 1 and 'LOC' on line 3", "plain"]),
        ("B-PER E-PER O E-LOC O", ["line 4: the tag E-LOC continues no entity"]),
        ("B-PER L-PER O S-LOC O", ["line 4: found the tag 'S-LOC', expected O, B-TYPE, I-TYPE, L"]),
        (
            "B-PER L-PER O I-LOC O",
            ["line 4: the tag I-LOC continues no entity of its type (BILOU)"],
        ),
    ],
)
def test_mixed_tags_are_refused_with_their_lines(
    tmp_path: Path, tags: str, wanted: list[str]
) -> None:
    lines = [f"w{number} {tag}\n" for number, tag in enumerate(tags.split())]
    path = put(tmp_path / "a.conll", "".join(lines) + "\n")
    with pytest.raises(DataError) as caught:
        guess_data(path, TAGGING)
    assert str(path) in str(caught.value)
    assert all(part in str(caught.value) for part in wanted), caught.value


def test_numbers_in_place_of_tags_are_doubted(tmp_path: Path) -> None:
    row = '{"tokens": ["Ann", "sings"], "ner_tags": [1, 0]}\n'
    guess = guess_data(put(tmp_path / "a.jsonl", row * 2), TAGGING)
    assert guess.data.scheme == "plain"
    assert "NOT SURE: the tags are numbers" in guess.explain("scheme")


def test_a_rare_slip_of_iob1_is_overlooked_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_conll(tmp_path / "a.conll", "IOB1", rows=60)
    path.write_text(path.read_text() + "Oslo x B-LOC\n", encoding="utf-8")
    assert guess_data(path, TAGGING).data.scheme == "IOB1"
    assert "line 423: the tag B-LOC begins an entity after O" in caplog.text


def test_tags_without_a_type_are_entities(tmp_path: Path) -> None:
    path = tmp_path / "species.conll"
    path.write_text("the O\nE. B\ncoli I\nruns O\n\nrice B\ngrows O\n", encoding="utf-8")
    guess = guess_data(path, TAGGING)
    assert (guess.data.entity_type, guess.data.scheme) == ("ENTITY", "BIO")
    assert guess.data.metrics_or_usual[0] == "f1"
    first, second = read_examples(path, guess.data)
    assert first.targets["tags"] == ["O", "B-ENTITY", "I-ENTITY", "O"]
    assert second.targets["tags"] == ["B-ENTITY", "O"]


def test_plain_tags_of_one_letter_stay_plain(tmp_path: Path) -> None:
    path = tmp_path / "speech.conll"
    path.write_text("a O\nb I\nc V\n\nd V\ne N\n", encoding="utf-8")
    guess = guess_data(path, TAGGING)
    assert (guess.data.entity_type, guess.data.scheme) == (None, "plain")


def test_a_wrong_scheme_in_the_model_file_names_the_right_one(tmp_path: Path) -> None:
    path = write_conll(tmp_path / "a.conll", "IOB1")
    config = data(kind="tagging", format="conll", texts=["1"], label="3", scheme="BIO")
    with pytest.raises(DataError, match=r"line 3: the tag I-PER.*reads as IOB1: set data.scheme"):
        store(tmp_path / "store", path, config)


def test_conllu_comments_and_ranges_are_no_tokens(tmp_path: Path) -> None:
    rest = "\t_" * 6
    text = f"# text = im Bad\n1-2\tim\t_\t_{rest}\n1\tin\t_\tADP{rest}\n2\tdem\t_\tDET{rest}\n\n"
    path = put(tmp_path / "a.conllu", text)
    guess = guess_data(path, TAGGING)
    assert (guess.data.texts, guess.data.label, guess.data.scheme) == (["form"], "upos", "plain")
    (example,) = read_examples(path, guess.data)
    assert (example.texts, example.lines) == ([["in", "dem"]], [3, 4])
    assert example.targets == {"tags": ["ADP", "DET"]}


def test_tags_in_lists_and_in_columns_of_words(tmp_path: Path) -> None:
    row = {"tokens": ["in", "Rome"], "ner_tags": ["O", "B-LOC"]}
    path = put(tmp_path / "a.jsonl", json.dumps(row) + "\n")
    guess = guess_data(path, TAGGING)
    (example,) = read_examples(path, guess.data)
    assert (example.texts, example.targets) == ([["in", "Rome"]], {"tags": ["O", "B-LOC"]})
    path = put(tmp_path / "a.tsv", "tokens\ttags\nin Rome\tO B-LOC\nto go\tO\n")
    with pytest.raises(DataError, match="line 3: found 2 tokens in 'tokens' and 1 tags in 'tags'"):
        guess_data(path, TAGGING)
