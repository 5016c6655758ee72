"""SQuAD's files from JSON to the columns of a processed task."""

import json
import logging
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from nlp_core.data.formats.squad import cut_passage, read_squad
from nlp_core.data.readers.example import Question
from nlp_core.data.task import read_task
from nlp_core.errors import DataError
from reglue_runtime.text import locate_plain_words
from tests.tiny_source import run

TEXT = "In 1858 Ann saw \u00e9t\u00e9s \U0001f600 in Rome. Ann left Rome."
LABELS = ["answerable", "unanswerable"]


def ask(key: str, answer: str | None, start: int = 0, **more: Any) -> dict[str, Any]:
    answers = [] if answer is None else [{"text": answer, "answer_start": start}]
    return {"id": key, "question": f"Who is {key}?", "answers": answers, **more}


def paragraph(*questions: dict[str, Any], text: str = TEXT) -> dict[str, Any]:
    return {"context": text, "qas": list(questions)}


def articles(*paragraphs: dict[str, Any]) -> dict[str, Any]:
    """Make a file in which each paragraph is an article of its own."""
    data = [{"title": "t", "paragraphs": [item]} for item in paragraphs]
    return {"version": "1.1", "data": data}


def read(folder: Path, content: object, **options: bool) -> list[Question]:
    path = folder / "a.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return read_squad(path, locate=locate_plain_words, **options)


def cut(question: Question) -> str:
    assert question.first is not None
    assert question.last is not None
    passage = question.passage
    return passage.text[passage.starts[question.first] : passage.ends[question.last]]


def test_answers_are_found_behind_characters_of_any_width(tmp_path: Path) -> None:
    rome = TEXT.index("Rome")
    content = articles(
        paragraph(ask("a", "Rome", rome), ask("b", "\u00e9t\u00e9s", 16)), paragraph()
    )
    first, second = read(tmp_path, content)
    assert (first.key, first.text, first.answers) == ("a", "Who is a?", ("Rome",))
    assert (first.first, cut(first), cut(second)) == (7, "Rome", "\u00e9t\u00e9s")
    assert first.passage is second.passage
    assert (first.passage.article, first.passage.number) == (1, 1)


def test_answer_in_the_midst_of_a_token_takes_the_whole(tmp_path: Path) -> None:
    (found,) = read(tmp_path, articles(paragraph(ask("a", "58 An", 5))))
    assert cut(found) == "1858 Ann"
    assert found.answers == ("58 An",)


@pytest.mark.parametrize(("start", "first"), [(999, 9), (-3, 2), (13, 2), (40, 9)])
def test_misplaced_answer_is_found_at_its_nearest_place(
    tmp_path: Path, start: int, first: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        (found,) = read(tmp_path, articles(paragraph(ask("a", "Ann", start))))
    assert (found.first, cut(found)) == (first, "Ann")
    assert "answers moved to their nearest occurrence file=a.json questions=1" in caplog.text


def test_first_answer_that_stands_in_the_text_gives_the_place(tmp_path: Path) -> None:
    question = ask("a", "Annie", 8)
    question["answers"].append({"text": "Rome", "answer_start": TEXT.index("Rome")})
    (found,) = read(tmp_path, articles(paragraph(question)))
    assert found.answers == ("Annie", "Rome")
    assert cut(found) == "Rome"


def test_lost_answer_is_counted_and_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        (found,) = read(tmp_path, articles(paragraph(ask("a", "Annie", 8))))
    assert (found.answers, found.first, found.last) == (("Annie",), None, None)
    assert "answers not found file=a.json questions=1" in caplog.text


def test_version_2_has_questions_without_an_answer(tmp_path: Path) -> None:
    questions = [
        ask("a", "Ann", 8, is_impossible=False),
        ask("b", None, is_impossible=True, plausible_answers=[{"text": "Ann", "answer_start": 8}]),
        ask("c", "Ann", 8, is_impossible=True),
    ]
    found = read(tmp_path, articles(paragraph(*questions)), unanswerable=True)
    assert [item.answers for item in found] == [("Ann",), (), ()]
    assert [item.first for item in found] == [2, None, None]


def test_file_without_answers_is_read_as_such(tmp_path: Path) -> None:
    bare = {"id": "a", "question": "Who?"}
    (found,) = read(tmp_path, articles(paragraph(bare)), labelled=False)
    assert (found.answers, found.first) == (None, None)


def test_byte_order_mark_is_dropped(tmp_path: Path) -> None:
    text = "\ufeff" + json.dumps(articles(paragraph(ask("a", "Ann", 8))))
    assert len(read(tmp_path, text)) == 1


NO_WORDS = "found a question without words"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"a\.json: found no JSON \(Expecting value at column 1\)"),
        ("[1]", "found a list, expected a record with the key 'data'"),
        ({"date": []}, "found the keys 'date', expected 'data' among them"),
        ({"data": {}}, "data: found a record, expected a list"),
        ({"data": [3]}, r"data\[0\]: found a number, expected a record"),
        (articles(paragraph(text=" ")), r"data\[0\]\.paragraphs\[0\]: found a context without"),
        (articles(paragraph(ask("a", None))), "does not name unanswerable|do not name unanswer"),
        (articles(paragraph(ask("a", " "))), r"qas\[0\]\.answers\[0\]: found an answer without"),
        (articles(paragraph(ask("a", "Ann", 8), ask("a", "Ann", 8))), r"qas\[1\]: .*'a' twice"),
        (articles(paragraph({**ask("a", "Ann"), "question": ""})), NO_WORDS),
        (articles(paragraph({**ask("a", "Ann"), "id": 7})), r"id: found a number, expected text"),
        (articles(paragraph(ask("a", "Ann", True))), "answer_start: found true or false"),
        (articles(paragraph(ask("a", None, is_impossible=False))), "is_impossible false and no"),
        (articles(paragraph(ask("a", "Ann", is_impossible="no"))), "is_impossible: found text"),
        (articles(paragraph({"id": "a", "question": "Who?"})), "'question', expected 'answers'"),
    ],
)
def test_malformed_file_is_refused_with_the_place(
    tmp_path: Path, content: object, message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read(tmp_path, content)
    assert "\n" not in str(caught.value)


def test_missing_file_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no such file; run `python -m stages\.preprocess"):
        read_squad(tmp_path / "x.json", locate=locate_plain_words)


def test_passage_is_cut_behind_a_token(tmp_path: Path) -> None:
    (question,) = read(tmp_path, articles(paragraph(ask("a", "Ann", 8))))
    assert cut_passage(question, 99) is question
    assert cut_passage(question, 3).passage.text == "In 1858 Ann"
    assert cut(cut_passage(question, 3)) == "Ann"


SPLITS = {"train": {"file": "a.json", "rows": 6}, "dev": {"file": "b.json", "rows": 2}}
TASK: dict[str, Any] = {
    "kind": "span",
    "reader": {"name": "squad", "max_context_tokens": 8},
    "tokens": "plain_words",
    "labels": LABELS,
    "metrics": ["f1"],
    "splits": SPLITS,
    "select_split": "held_out",
    "report_split": "dev",
    "held_out": {"share": 0.3, "seed": 1, "by": "article"},
}
LEFT = TEXT.index("left")
FILES = {
    "a.json": json.dumps(
        articles(
            paragraph(ask("a", "Ann", 8), ask("b", "left", LEFT), ask("c", None)),
            paragraph(ask("d", "Ann", 8), ask("e", "left", LEFT), ask("f", "lost")),
        )
    ),
    "b.json": json.dumps(articles(paragraph(ask("g", "left", LEFT), ask("h", "lost")))),
}


def test_only_train_is_cut_and_what_it_cannot_learn_left_out(tmp_path: Path) -> None:
    manifest = run(tmp_path, TASK, FILES)
    folder = tmp_path / "processed" / "d"
    rows = {
        name: pq.read_table(folder / f"{name}.parquet").to_pylist() for name in manifest["splits"]
    }
    held_out = [row["key"] for row in rows["held_out"]]
    assert held_out in (["a", "b", "c"], ["d", "e", "f"])
    expected = ["d"] if held_out[0] == "a" else ["a", "c"]
    assert [row["key"] for row in rows["train"]] == expected
    assert rows["train"][0]["text_b"] == "In 1858 Ann saw \u00e9t\u00e9s \U0001f600 in Rome"
    assert rows["train"][0]["id"] == (3 if held_out[0] == "a" else 0)
    assert [row["key"] for row in rows["dev"]] == ["g", "h"]
    assert rows["dev"][0]["text_b"] == TEXT
    assert (rows["dev"][0]["first"], rows["dev"][1]["first"]) == (10, None)
    assert rows["dev"][1]["answerable"]
    assert manifest["splits"]["dev"]["labels"] == {"answerable": 2}


def test_task_gives_back_tokens_places_and_answers(tmp_path: Path) -> None:
    run(tmp_path, TASK | {"held_out": TASK["held_out"] | {"by": "row"}}, FILES)
    task = read_task(tmp_path / "processed" / "d")
    assert task.targets == {"answers": LABELS}
    dev = task.read_split("dev")
    assert dev.target == [["left"], ["lost"]]
    assert dev.passages is not None
    assert dev.passages.positions is None, "an answer that stands nowhere cannot be learnt"
    assert [dev.passages.cut(row, 2, 3) for row in (0, 1)] == ["Ann saw", "Ann saw"]
    assert dev.passages.cut(0, -1, -1) == ""
    train = task.read_split("train")
    assert train.passages is not None
    assert train.passages.positions is not None
    for row, (first, last) in enumerate(train.passages.positions.tolist()):
        assert train.passages.cut(row, first, last) == (train.target[row] or [""])[0]


def test_held_out_by_article_needs_two_of_them(tmp_path: Path) -> None:
    files = FILES | {
        "a.json": json.dumps(articles(paragraph(*[ask(k, "Ann", 8) for k in "abcdef"])))
    }
    with pytest.raises(DataError, match="found 6 of 6 rows to hold out by article") as caught:
        run(tmp_path, TASK, files)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "processed" / "d").exists()
