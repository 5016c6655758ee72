"""Readers, guesses and stores of the user's files: what is read, and what is an error."""

import csv
import json
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nlp_core.config.dataset import Kind
from nlp_core.data.batching import Ragged
from nlp_core.data.guess import count_rows, guess_data, guess_texts
from nlp_core.data.readers.records import read_named
from nlp_core.data.readers.user import read_examples
from nlp_core.errors import DataError
from nlp_core.kinds import CLASSIFICATION, KINDS, RANKING
from tests.user_files import data, put, store

ROWS = [("a good film", "yes"), ("bad", "no"), ("so so", "yes"), ("fine film", "no")] * 5


def write_as(path: Path, *, header: bool = True) -> Path:
    """Write the same rows in the form that the suffix names."""
    if path.suffix == ".parquet":
        pq.write_table(
            pa.table({"text": [t for t, _ in ROWS], "label": [y for _, y in ROWS]}), path
        )
    elif path.suffix == ".jsonl":
        rows = [json.dumps({"text": text, "label": label}) for text, label in ROWS]
        put(path, "\n".join(rows) + "\n")
    else:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writerows([("text", "label")] * header + ROWS)
    return path


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("header", [True, False])
def test_every_form_gives_the_same_examples(tmp_path: Path, suffix: str, header: bool) -> None:
    path = write_as(tmp_path / f"a{suffix}", header=header)
    guess = guess_data(path, CLASSIFICATION)
    assert guess.doubts == {}
    examples = list(read_examples(path, guess.data))
    found = [(" ".join(item.texts[0]), *item.targets["label"]) for item in examples]
    assert found == ROWS


@pytest.mark.parametrize(
    ("kind", "text", "texts", "label"),
    [
        ("classification", "id\tstars\treview\n1\t5\ta b c\n2\t1\td e f\n", ["review"], "stars"),
        ("classification", "pos\ta very good one\nneg\ta bad one\npos\tgood it is\n", ["2"], "1"),
        ("regression", "what a day\t0.5\nnone at all\t1.5\nfine by me\t2.0\n", ["1"], "2"),
        (
            "pair_regression",
            "idx,sentence1,sentence2,score\n0,a b,c d,1.5\n1,e f,g h,2.5\n",
            ["sentence1", "sentence2"],
            "score",
        ),
        (
            "ranking",
            "qid\tquestion\tanswer\tlabel\nq1\tw h o\tm e\t1\nq1\tw h o\ty o u\t0\n",
            ["question", "answer"],
            "label",
        ),
        ("pair_classification", "a b c\td e f\tx\ng h i\tj k l\ty\nm n\to p\tx\n", ["1", "2"], "3"),
    ],
)
def test_columns_are_guessed_from_names_and_values(
    tmp_path: Path, kind: Kind, text: str, texts: list[str], label: str
) -> None:
    suffix = "csv" if "," in text else "tsv"
    guess = guess_data(put(tmp_path / f"a.{suffix}", text), KINDS.get(kind))
    assert (guess.data.texts, guess.data.label) == (texts, label)
    assert guess.data.group == ("qid" if kind == "ranking" else None)


def test_quotes_separators_and_line_ends_of_a_csv(tmp_path: Path) -> None:
    text = 'label;text\r\nyes;"good; ""very"" good\nindeed"\r\nno;bad\r\n'
    path = put(tmp_path / "a.csv", text)
    guess = guess_data(path, CLASSIFICATION)
    assert guess.data.separator == ";"
    examples = list(read_examples(path, guess.data))
    assert [item.targets for item in examples] == [{"label": ["yes"]}, {"label": ["no"]}]
    assert [item.line() for item in examples] == [2, 4]
    assert "indeed" in examples[0].texts[0]


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("a.tsv", "text\tlabel\na\tyes\nb\n", "line 3: found 1 column separated by '\\t'"),
        ("a.tsv", "text\ttext\na\tyes\n", "names 'text' twice"),
        ("a.tsv", "text\tlabl\na\tyes\n", "Did you mean 'labl'"),
        ("a.tsv", "text\tlabel\na\t \n", "line 2: found ' ' in 'label'"),
        ("a.tsv", "text\tlabel\n", "found no examples"),
        ("a.tsv", "a film\tyes\n", "line 1: found no column 'text' in the only row, which names"),
        ("a.tsv", "", "the file is empty"),
        ("a.csv", 'text,label\n"a,yes\n', "line 2: unbalanced quotes"),
        ("a.jsonl", '{"text": "a", "label": "x"}\n{"text": 3\n', "line 2: not valid JSON"),
        ("a.jsonl", '[{"text": "a", "label": "x"},\n', "splits an array"),
        ("a.jsonl", '[{"text": "a", "label": "x"}]\n', "splits an array"),
        ("a.jsonl", '{"text": {"a": 1}, "label": "x"}\n', "line 1: found a dict in 'text'"),
        ("a.jsonl", '{"text": "a"}\n', "line 1: found no column 'label'"),
        ("a.jsonl", '{"text": "a \\ud83d b", "label": "x"}\n', "line 1: not valid JSON (half a"),
        ("a.jsonl", '{"text": "a", "label": ' + "[" * 100_000 + "\n", "nested too deeply"),
        ("a.jsonl", '{"text": "a", "label": ' + "1" * 5000 + "}\n", "line 1: not valid JSON (Exc"),
        ("a.parquet", "text\tlabel\n", "not a readable parquet file"),
    ],
)
def test_a_malformed_file_is_refused_with_its_line(
    tmp_path: Path, name: str, text: str, wanted: str
) -> None:
    path = put(tmp_path / name, text)
    with pytest.raises(DataError) as caught:
        store(tmp_path / "store", path, data(format=path.suffix[1:]))
    assert str(path) in str(caught.value)
    assert wanted in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "a.jsonl",
            '{"b": 1}\n{"text": "a", "label": "x", "text": "b"}\n',
            "a.jsonl: line 2: found",
        ),
        ("a.json", '[{"text": "a", "label": "x"}, {"text": "b", "text": "c"}]', "a.json: found"),
    ],
)
def test_a_repeated_key_is_an_error(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError) as caught:
        list(read_named(tmp_path / name, name.partition(".")[2]))
    assert f"{message} the key 'text' twice in an object, with '" in str(caught.value)


def test_text_in_another_encoding_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("text\tlabel\na\tx\n", encoding="utf-16")
    with pytest.raises(DataError, match="found UTF-16 text, expected UTF-8; save it as UTF-8"):
        guess_data(path, CLASSIFICATION)
    path.write_text("text\tlabel\nléger\tx\n", encoding="latin-1")
    with pytest.raises(DataError, match=r"line 2: not UTF-8 text .*another encoding as UTF-8"):
        guess_data(path, CLASSIFICATION)


def test_what_is_nested_is_no_column(tmp_path: Path) -> None:
    rows = ['{"meta": {"a": "b c d e"}, "spans": [{"a": 1}], "text": "b", "label": %s}']
    path = put(tmp_path / "a.jsonl", "\n".join(rows * 2) % ("true", "false"))
    guess = guess_data(path, CLASSIFICATION)
    assert (guess.data.texts, guess.data.label) == (["text"], "label")
    assert guess.explain("label") == "2 labels: false, true"
    put(path, '{"input": {"text": "a"}, "label": "x"}\n')
    with pytest.raises(DataError, match="'input' is nested and not read"):
        guess_data(path, CLASSIFICATION)


def test_a_quote_that_is_left_open_takes_no_rows_of_a_tsv_with_it(tmp_path: Path) -> None:
    rows = ["text\tlabel", '"Great!"\ta', *["fine\tb"] * 1020]
    rows += ['"Hello to all\ta', "fine\tb", 'and goodbye"\tb', "fine\ta"]
    path = put(tmp_path / "a.tsv", "\n".join(rows) + "\n")
    guess = guess_data(path, CLASSIFICATION)
    assert guess.data.quoted
    assert "quoted cells" in guess.explain("quoted")
    with pytest.raises(DataError, match="line 1023: found a quote that is not closed in its line"):
        store(tmp_path / "store", path, guess.data)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt.csv", "a"])
def test_bare_texts_of_blank_lines_are_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="found only blank lines"):
        guess_texts(put(tmp_path / name, "\n\n"))


def test_a_damaged_parquet_file_and_one_with_a_column_twice_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    column = pa.array(["x", "y"] * 500)
    pq.write_table(pa.table([column, column], names=["text", "label"]), path, compression="snappy")
    whole = path.read_bytes()
    path.write_bytes(whole[:40] + b"\xff" * 40 + whole[80:])
    with pytest.raises(DataError, match="not a readable parquet file"):
        store(tmp_path / "one", path, data(format="parquet"))
    names = pa.table([column, column], names=["text", "label"])
    pq.write_table(names, path, compression="none", use_dictionary=False)
    path.write_bytes(path.read_bytes().replace(b"x\x01\x00\x00\x00y", b"\xff\x01\x00\x00\x00y"))
    with pytest.raises(DataError, match=r"not a readable parquet file .*copy the file"):
        store(tmp_path / "text", path, data(format="parquet"))
    pq.write_table(pa.table([column, column, column], names=["text", "label", "label"]), path)
    with pytest.raises(DataError, match="found two columns 'label'"):
        store(tmp_path / "two", path, data(format="parquet"))


@pytest.mark.parametrize(
    ("kind", "name", "text", "wanted"),
    [
        ("classification", "a.tsv", "\n\n", "found only blank lines"),
        ("classification", "a.csv", "\n\n", "found only blank lines"),
        ("tagging", "a.conll", "\n\n", "found only blank lines"),
        (
            "ranking",
            "a.tsv",
            "query_id\tquestion\tanswer\n1\twho is it\tit is he\n",
            "label column",
        ),
        ("multi_label", "a.jsonl", '{"text": "a b c", "labels": 3}\n', "expected a list of labels"),
    ],
)
def test_a_file_without_what_the_kind_needs_is_refused(
    tmp_path: Path, kind: Kind, name: str, text: str, wanted: str
) -> None:
    path = put(tmp_path / name, text)
    with pytest.raises(DataError, match=wanted):
        guess_data(path, KINDS.get(kind))


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("a.tsv", "who is it\thim\ther\t1\nwho was it\the\tshe\t0\n", "names in a header"),
        ("a.jsonl", '{"choice1": "him", "choice2": "her"}\n', "a column of the question"),
    ],
)
def test_candidates_want_names_and_a_question(
    tmp_path: Path, name: str, text: str, wanted: str
) -> None:
    with pytest.raises(DataError, match=wanted):
        guess_data(put(tmp_path / name, text), RANKING, has_choices=True)


def test_sentences_are_counted_whatever_ends_a_line(tmp_path: Path) -> None:
    text = "a O\nb O\n\nc O\n\n\nd O\n"
    config = data(kind="tagging", format="conll", texts=["1"], label="2", scheme="plain")
    for idx, ending in enumerate(["\n", "\r\n"]):
        path = tmp_path / f"{idx}.conll"
        path.write_bytes(text.replace("\n", ending).encode())
        assert count_rows(path, config) == 3


@pytest.mark.parametrize("value", ["nan", "1_000", "many"])
def test_regression_wants_finite_numbers(tmp_path: Path, value: str) -> None:
    path = put(tmp_path / "a.tsv", f"text\tlabel\na\t1.5\nb\t{value}\n")
    with pytest.raises(DataError, match=f"line 3: found '{value}' in 'label', expected a number"):
        store(tmp_path / "store", path, data(kind="regression"))


def test_a_store_gives_back_what_was_read(tmp_path: Path) -> None:
    path = write_as(tmp_path / "a.tsv")
    split = store(tmp_path / "store", path, data(tokens="spaces"))
    column = split.texts["tokens"]
    assert [" ".join(tokens) for tokens in column.list_rows()] == [text for text, _ in ROWS]
    assert split.target == [label for _, label in ROWS]
    assert column.count() == {"a": 5, "good": 5, "film": 10, "bad": 5, "so": 10, "fine": 5}
    ids = split.encode_target("label", ["no", "yes"])
    assert not isinstance(ids, Ragged)
    assert ids[np.arange(5)].tolist() == [1, 0, 1, 0, 1]
    part = split.subset("dev", np.array([1, 3, 5]))
    assert [" ".join(tokens) for tokens in part.texts["tokens"].list_rows()] == [
        "bad",
        "fine film",
        "bad",
    ]
    assert part.texts["tokens"].count() == {"bad": 2, "fine": 1, "film": 1}
    assert part.target == ["no"] * 3
    ragged = column.look_up(lambda words: np.array([len(word) for word in words]))
    assert ragged.take(np.array([0, 1]), padding=-1).tolist() == [[1, 4, 4], [3, -1, -1]]
    assert ragged.mask(np.array([0, 1])).tolist() == [[True] * 3, [True, False, False]]


def test_characters_are_spelled_when_asked_for(tmp_path: Path) -> None:
    path = write_as(tmp_path / "a.tsv")
    column = store(tmp_path / "store", path, data(tokens="spaces")).texts["tokens"]
    words, spell = column.spell(lambda words: np.array([[len(w), ord(w[0])] for w in words]))
    numbers = words.take(np.array([3]))[0]
    assert spell[numbers].tolist() == [[4, ord("f")], [4, ord("f")]]


def test_only_the_most_frequent_words_are_kept(tmp_path: Path) -> None:
    rare = [f"common again w{number}" for number in range(200)]
    text = "text\tlabel\n" + "".join(f"{words}\tx\n" for words in rare)
    path = put(tmp_path / "a.tsv", text)
    column = store(tmp_path / "store", path, data(tokens="spaces", max_words=2)).texts["tokens"]
    assert column.count() == {"common": 200, "again": 200}
    assert len(column.lexicon) == 3
    assert column.lengths.tolist() == [3] * 200
    assert column.list_rows()[7] == ["common", "again", column.lexicon[0]]


def test_rarest_words_are_forgotten_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nlp_core.data.stored_column.ROWS_A_CHUNK", 10)
    words = [f"w{number % 7} x{number}" for number in range(300)]
    path = put(tmp_path / "a.tsv", "text\tlabel\n" + "".join(f"{w}\ty\n" for w in words))
    column = store(tmp_path / "store", path, data(tokens="spaces", max_words=7)).texts["tokens"]
    assert sorted(column.count()) == [f"w{number}" for number in range(7)]
    assert sum(column.count().values()) == 300


def test_candidates_of_a_question_are_grouped_by_name_or_by_run(tmp_path: Path) -> None:
    rows = [("q1", "a"), ("q1", "b"), ("q2", "c"), ("q1", "d")]
    text = "q\tc\tlabel\tid\n" + "".join(f"{q}\t{c}\t0\tz\n" for q, c in rows)
    path = put(tmp_path / "a.tsv", text)
    pair = {"kind": "ranking", "texts": ["q", "c"]}
    by_run = store(tmp_path / "one", path, data(**pair))
    assert by_run.group is not None
    assert by_run.group.tolist() == [0, 0, 1, 2]
    by_name = store(tmp_path / "two", path, data(**pair, group="id"))
    assert by_name.group is not None
    assert by_name.group.tolist() == [0, 0, 0, 0]
    put(path, f"{path.read_text()}q3\ta\t1\t\n")
    with pytest.raises(DataError, match="line 6: found '' in 'id', expected the id of the"):
        list(read_examples(path, data(**pair, group="id")))


def test_a_file_without_a_row_that_counts_says_so(tmp_path: Path) -> None:
    path = put(tmp_path / "a.tsv", "text\tlabel\na film\tyes\n")
    with pytest.raises(DataError, match=r"at least one row that data\.where keeps"):
        store(tmp_path / "cache", path, data(where={"label": "no"}))


def measure_peak(folder: Path, rows: int) -> int:
    """Return the most memory that storing and reading a file of long texts takes, in bytes."""
    path = folder / f"{rows}.tsv"
    lines = [
        f"{' '.join(f'w{(row * 7 + k) % 50}' for k in range(100))}\tx{row % 3}\n"
        for row in range(rows)
    ]
    put(path, "text\tlabel\n" + "".join(lines))
    del lines
    tracemalloc.start()
    try:
        split = store(folder / str(rows), path, data(tokens="spaces"))
        ids = split.texts["tokens"].look_up(lambda words: np.arange(len(words)))
        for start in range(0, rows, 100):
            ids.take(np.arange(start, start + 100))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nlp_core.data.user_file.ROWS_A_GROUP", 100)
    monkeypatch.setattr("nlp_core.data.stored_column.ROWS_A_CHUNK", 100)
    monkeypatch.setattr("nlp_core.data.stored_column.MOST_IN_MEMORY", 1000)
    small, large = (measure_peak(tmp_path, rows) for rows in (400, 2400))
    # A text has 100 tokens, 290 characters; a row may take places for numbers, and no text.
    assert (large - small) / 2000 < 100, (small, large)
