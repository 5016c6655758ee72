"""Files as tools and people leave them: what is guessed of them, and what is read."""

import json
from pathlib import Path
from typing import Any

import pytest

from nlp_core.cli import main
from nlp_core.data.guess import guess_data
from nlp_core.data.kind_guess import KindGuess, guess_kind
from nlp_core.data.readers.list_cell import parse_list
from nlp_core.data.readers.user import UserExample, read_examples
from nlp_core.data.token_guess import Guess
from nlp_core.errors import DataError
from nlp_core.kinds import CLASSIFICATION, MULTI_LABEL, REGRESSION, TAGGING
from tests.user_commands import fail
from tests.user_files import QUICK, SMALL, put, write_tsv

CHINESE = {
    "text": "张伟住在上海浦东新区",
    "entities": [[0, 2, "PER"], [4, 6, "LOC"], [6, 10, "LOC"]],
}


def guess(path: Path) -> tuple[KindGuess, Guess]:
    found = guess_kind(path)
    return found, guess_data(path, found.kind)


def write_objects(path: Path, rows: list[dict[str, Any]]) -> Path:
    return put(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def read(path: Path) -> list[UserExample]:
    return list(read_examples(path, guess(path)[1].data))


def test_adjacent_entities_of_chinese_are_read_by_characters(tmp_path: Path) -> None:
    path = write_objects(tmp_path / "a.jsonl", [CHINESE] * 24)
    found = guess(path)[1]
    assert (found.data.tokens, found.doubts) == ("characters", {})
    assert read(path)[0].targets["tags"][4:] == ["B-LOC", "I-LOC", "B-LOC", *["I-LOC"] * 3]


def test_what_is_given_is_not_checked_as_guessed(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_objects(place / "a.jsonl", [CHINESE] * 24)
    given = ["--set", "data.tokens=plain_words"]
    error = fail(capsys, "train", "a.jsonl", *given, *SMALL, "--epochs", "1", "-o", "out")
    assert "shares a token with the entity before it" in error
    put(place / "b.conll", "a B-X\nb E-X\n\n" * 12)
    main(["train", "b.conll", "--set", "data.scheme=plain", *SMALL, "--epochs", "1", "-o", "out"])
    assert 'data.scheme = "plain"  (as given)' in capsys.readouterr().err


def test_orange_may_list_the_values_of_its_class(tmp_path: Path) -> None:
    rows = "".join(f"win {n} now\tspam\nsee you {n}\tnot\\ spam\n" for n in range(10))
    path = put(tmp_path / "a.tab", f"text\tlabel\nstring\tnot\\ spam spam\nmeta\tclass\n{rows}")
    assert guess(path)[1].data.texts == ["text"]
    assert len(read(path)) == 20


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("['a', 'b']", ["a", "b"]),
        ('["it\'s", "b"]', ["it's", "b"]),
        ("['a' 'b'\n 'c']", ["a", "b", "c"]),
        ("[(0, 4, 'A')]", [[0, 4, "A"]]),
        ("[3, 1]", [3, 1]),
        ("[]", []),
        ("[deleted]", "[deleted]"),
        ("[0.5]", "[0.5]"),
        ("[__import__('os')]", "[__import__('os')]"),
    ],
)
def test_lists_in_cells(text: str, found: object) -> None:
    assert parse_list(text) == found


def test_tables_may_hold_lists(tmp_path: Path) -> None:
    rows = "".join(
        f"good film {n},\"['a', 'b']\"\nbad film {n},['a']\nx {n},[]\n" for n in range(9)
    )
    path = put(tmp_path / "labels.csv", f"text,labels\n{rows}")
    assert guess(path)[0].kind == MULTI_LABEL
    assert [one.targets["labels"] for one in read(path)[:3]] == [["a", "b"], ["a"], []]
    rows = "\"['good', 'Bonn']\",\"['O', 'B-LOC']\"\n" * 9
    path = put(tmp_path / "tags.csv", f"tokens,ner_tags\n{rows}")
    assert guess(path)[1].data.scheme == "BIO"
    assert (read(path)[0].texts, read(path)[0].targets["tags"]) == (
        [["good", "Bonn"]],
        ["O", "B-LOC"],
    )
    rows = "Anna left,\"[{'start': 0, 'end': 4, 'label': 'PER'}]\"\nno one,[]\n" * 9
    path = put(tmp_path / "spans.csv", f"text,entities\n{rows}")
    assert guess(path)[0].kind == TAGGING
    assert read(path)[0].targets["tags"] == ["B-PER", "O"]


def test_many_whole_numbers_are_never_sure(tmp_path: Path) -> None:
    rows = [{"text": f"how do i {n} top up", "label": n % 77} for n in range(300)]
    classes = guess_kind(write_objects(tmp_path / "a.jsonl", rows))
    assert classes.kind == CLASSIFICATION
    assert "--kind regression" in classes.doubt
    rows = [{"text": f"how do i {n} top up", "price": 3 * n % 97} for n in range(300)]
    numbers = guess_kind(write_objects(tmp_path / "b.jsonl", rows))
    assert numbers.kind == REGRESSION
    assert "--kind classification" in numbers.doubt


def test_an_id_is_no_label_for_sure(tmp_path: Path) -> None:
    rows = [
        {"id": str(13818513 + n), "dialogue": f"one two three four {n}", "summary": f"a short {n}"}
        for n in range(40)
    ]
    assert guess(write_objects(tmp_path / "a.jsonl", rows))[1].doubts["label"]
    rows = [{"id": n, "text": f"one two three four {n}"} for n in range(40)]
    found = guess_data(write_objects(tmp_path / "b.jsonl", rows), REGRESSION)
    assert "is it an id?" in found.doubts["label"]


@pytest.mark.parametrize(
    ("line", "texts", "label"),
    [("B-LOC\tBonn", "2", "1"), ("7\tBonn\tB-LOC", "2", "3"), ("Bonn\tNNP\tB-LOC", "1", "3")],
)
def test_columns_of_tokens(tmp_path: Path, line: str, texts: str, label: str) -> None:
    other = line.replace("B-LOC", "O").replace("Bonn", "in")
    found = guess(put(tmp_path / "a.conll", f"{other}\n{line}\n\n" * 5))[1].data
    assert (found.texts, found.label, found.scheme) == ([texts], label, "BIO")


@pytest.mark.parametrize(
    ("text", "has_comments"),
    [
        ("# id 3f domain=en\nBonn _ _ B-LOC\nis _ _ O\n\n", True),
        ("# 1\nBonn NNP\nis VBZ\n\n# 2\nhere RB\nis VBZ\n\n", True),
        ("#Bonn O\nis O\nBonn B-LOC\n\n", False),
        ("in IN\n# #\n5 CD\n\n", False),
    ],
)
def test_comments_of_tokens(tmp_path: Path, text: str, has_comments: bool) -> None:
    path = put(tmp_path / "a.conll", text * 5)
    assert guess(path)[1].data.comments is has_comments
    assert any(word.startswith("#") for word in read(path)[0].texts[0]) is not has_comments


def test_a_word_on_each_row_of_a_table_is_an_error(tmp_path: Path) -> None:
    rows = "".join(f"{n},good,O\n{n},Paris,B-geo\n" for n in range(50))
    path = put(tmp_path / "a.csv", f"Sentence #,Word,Tag\n{rows}")
    with pytest.raises(DataError, match="found a word in 'Word' and a tag such as 'B-geo'"):
        guess_kind(path)


def test_annotators_leave_out_keys_without_entities(tmp_path: Path) -> None:
    span = {"start": 0, "end": 3, "labels": ["PER"], "text": "Bob"}
    rows = [{"id": 1, "text": "a b"}, {"id": 2, "text": "Bob b", "label": [span]}]
    assert read(put(tmp_path / "min.json", json.dumps(rows)))[0].targets["tags"] == ["O", "O"]
    spans = [{"start": 0, "end": 3, "label": "PER"}]
    tasks = [{"text": "a b", "answer": "accept"}, {"text": "Bob b", "spans": spans}]
    path = write_objects(tmp_path / "prodigy.jsonl", [tasks[0], tasks[1] | {"answer": "accept"}])
    assert [one.targets["tags"] for one in read(path)] == [["O", "O"], ["B-PER", "O"]]


def test_choices_of_prodigy_are_no_documents(tmp_path: Path) -> None:
    options = [{"id": "a", "text": "A"}, {"id": "b", "text": "B"}]
    rows = [
        {"text": f"t {n}", "options": options, "accept": ["ab"[n % 2]], "answer": "accept"}
        | {"config": {"choice_style": "single"}}
        for n in range(40)
    ]
    found = guess(write_objects(tmp_path / "a.jsonl", rows))[1].data
    assert (found.kind, found.label) == (CLASSIFICATION, "accept")


def test_an_unknown_header_over_texts(tmp_path: Path) -> None:
    rows = "".join(f"please do {n},intent{n % 30}\n" for n in range(90))
    found = guess(put(tmp_path / "a.csv", f"utterance_text,intent_name\n{rows}"))[1].data
    assert (found.header, found.texts, found.label) == (True, ["utterance_text"], "intent_name")


def test_a_number_answers_no_query(tmp_path: Path) -> None:
    rows = [
        {"question": f"which {n}?", "choices": ["x", "y", "z"], "answer": n % 3} for n in range(40)
    ]
    found = guess_kind(write_objects(tmp_path / "a.jsonl", rows))
    assert (found.kind, bool(found.doubt)) == (CLASSIFICATION, True)


def test_an_empty_column_is_no_text(tmp_path: Path) -> None:
    rows = ",good soup here,pos\n,bad bed there,neg\n" * 10
    assert guess(put(tmp_path / "a.csv", f"text,body,label\n{rows}"))[1].data.texts == ["body"]
    with pytest.raises(DataError, match="found only empty cells in 'text', expected texts"):
        guess(put(tmp_path / "b.csv", "text,label\n" + ",pos\n,neg\n" * 10))


def test_quotes_after_a_space_are_an_error(tmp_path: Path) -> None:
    path = put(tmp_path / "a.csv", '"text", "label"\n' + '"a b, x", "a"\n"c, d", "b"\n' * 9)
    with pytest.raises(DataError, match="a space before the quotes of a cell"):
        guess(path)


def test_a_missing_label_can_be_left_out(tmp_path: Path) -> None:
    path = write_objects(tmp_path / "a.jsonl", [{"text": "a", "label": x} for x in "xyxyxy"])
    data = guess(path)[1].data
    write_objects(path, [{"text": "a", "label": "x"}, {"text": "b", "label": None}])
    with pytest.raises(DataError, match=r'line 2: found None .*data.where=.*".\+"'):
        list(read_examples(path, data))
    some = data.model_copy(update={"where": {"label": ".+"}})
    assert len(list(read_examples(path, some))) == 1


def test_predict_keeps_rows_without_text_and_refuses_other_formats(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tsv(place / "a.tsv")
    main(["train", "a.tsv", *QUICK, "-o", "out"])
    put(place / "new.tsv", "good soup\tx\n\t\n\ncheap bill\ty\n")
    main(["predict", "out", "--data", "new.tsv", "-o", "done.tsv"])
    assert len((place / "done.tsv").read_text().splitlines()) == 3
    put(place / "new.jsonl", '{"text": "a b", "label": "x"}\n')
    error = fail(capsys, "predict", "out", "--data", "new.jsonl", "-o", "new")
    assert "line 1: it begins with { as JSON does, expected cells" in error
    for name in ("done.jsonl", "done.csv", "done.parquet"):
        assert "found a name that says" in fail(
            capsys, "predict", "out", "--data", "new.tsv", "-o", name
        )
        assert not (place / name).exists()
