from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

import numpy as np
import pytest

from nlp_core.config.dataset import SplitConfig
from nlp_core.config.reader import ReadTask
from nlp_core.data.formats.rows import MrpcReader, TsvReader, WikiqaReader
from nlp_core.data.formats.tagged import ConllReader, ParallelReader
from nlp_core.data.readers.example import Example, Sentence
from nlp_core.data.readers.lines import Line, read_lines
from nlp_core.data.word_vectors import read_glove
from nlp_core.errors import DataError
from nlp_core.kinds import INTENT_SLOTS

HEADER = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"


def write(folder: Path, content: str | bytes, name: str = "a.txt") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def make_task(labels: list[str] | None = None, **split: Any) -> ReadTask:  # Any: a split's fields
    """Return what readers ask of a task, with equal splits."""
    splits = {name: SplitConfig(file="a.txt", rows=1, **split) for name in ("train", "dev", "test")}
    task = {"labels": labels or [], "slots": ["LOC", "PER"], "scheme": "BIOES", "splits": splits}
    return cast(ReadTask, SimpleNamespace(kind=INTENT_SLOTS, **task))


def read_tsv(
    path: Path,
    *,
    texts: list[str],
    label: str | None,
    columns: list[str] | None = None,
    label_separator: str | None = None,
) -> list[Example]:
    reader = TsvReader(
        name="tsv", texts=texts, label=label or "label", label_separator=label_separator
    )
    task = make_task(columns=columns, labelled=label is not None)
    return reader.read(task, "train", path)


def read_mrpc(path: Path, *, split: str, dev_ids_path: Path) -> list[Example]:
    return MrpcReader(name="mrpc", dev_ids=dev_ids_path.name).read(make_task(), split, path)


def read_sentences(path: Path, *, keep_docstart: bool = False) -> list[Sentence]:
    docstart: Literal["keep", "drop"] = "keep" if keep_docstart else "drop"
    reader = ConllReader(name="conll", columns=4, scheme="IOB1", docstart=docstart)
    return reader.read(make_task(["LOC", "PER"]), "train", path)


def test_lines_end_at_line_feeds_only(tmp_path: Path) -> None:
    path = write(tmp_path, "\ufeffa\u0085b\r\nc\u2028d \x1c\nlast")
    expected = [
        Line(1, "a\u0085b", "\r\n"),
        Line(2, "c\u2028d \x1c", "\n"),
        Line(3, "last", ""),
    ]
    assert list(read_lines(path)) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"good\nb\xffd\n", r"a\.txt: line 2: not UTF-8 text"),
        (b"good\ngood\nb\0d\n", r"a\.txt: line 3: a NUL character at position 2"),
        (b"", r"a\.txt: the file is empty"),
    ],
)
def test_lines_refuse_what_is_no_text(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(read_lines(write(tmp_path, content)))


def test_lines_name_the_stage_that_fetches_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"python -m stages\.preprocess {tmp_path.name}"):
        list(read_lines(tmp_path / "none.txt"))


def test_tsv_keeps_quotes_and_reads_columns_by_name(tmp_path: Path) -> None:
    path = write(tmp_path, 'id\tb\ta\tlabel\n0\t"x\ty" z\t1\n1\tp \t q\t0\n')
    rows = read_tsv(path, texts=["a", "b"], label="label")
    assert rows == [Example(2, 'y" z', '"x', "1"), Example(3, " q", "p ", "0")]


def test_tsv_without_header_and_without_labels(tmp_path: Path) -> None:
    path = write(tmp_path, "gj04\t1\t\tWords.")
    rows = read_tsv(path, texts=["text"], label="label", columns=["a", "label", "b", "text"])
    assert rows == [Example(1, "Words.", None, "1")]
    assert (
        read_tsv(write(tmp_path, "id\ttext\n0\tx\n"), texts=["text"], label=None)[0].label is None
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text\tlabel\na\t0\nb\n", r"line 3: found 1 tab-separated columns, expected 2"),
        ("text\tlabel\na\tb\t0\n", r"line 2: found 3 tab-separated columns, expected 2"),
        ("text\tlabel\n\n", r"line 2: found 1 tab-separated columns"),
        ("words\tlabel\na\t0\n", r"line 1: the header lacks text; found words, label"),
    ],
)
def test_tsv_refuses_malformed_lines(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(DataError, match=rf"a\.txt: {message}"):
        read_tsv(write(tmp_path, content), texts=["text"], label="label")


def test_tsv_takes_a_cell_of_several_labels_apart(tmp_path: Path) -> None:
    path = write(tmp_path, "text\tlabel\na\tx, y\nb\t\nc\ty\n")
    rows = read_tsv(path, texts=["text"], label="label", label_separator=",")
    assert [row.labels for row in rows] == [("x", "y"), (), ("y",)]
    assert {row.label for row in rows} == {None}
    spaces = write(tmp_path, "text\tlabel\na\tx y\n")
    assert read_tsv(spaces, texts=["text"], label="label", label_separator=" ")[0].labels == (
        "x",
        "y",
    )
    (unseen,) = read_tsv(spaces, texts=["text"], label=None, label_separator=" ")
    assert unseen.labels is None


@pytest.mark.parametrize("cell", ["x,,y", "x,", ",", "x,y,x", "x, x"])
def test_tsv_refuses_labels_that_are_empty_or_stand_twice(tmp_path: Path, cell: str) -> None:
    path = write(tmp_path, f"text\tlabel\na\tx\nb\t{cell}\n")
    with pytest.raises(DataError, match=rf"a\.txt: line 3: found the labels '{cell}', expected"):
        read_tsv(path, texts=["text"], label="label", label_separator=",")


def test_mrpc_dev_is_what_the_ids_cut_out(tmp_path: Path) -> None:
    rows = '1\t11\t12\ta\tb\n0\t21\t22\tc " d\te\n1\t31\t32\tf\tg\n'
    path = write(tmp_path, "\ufeff" + HEADER + rows)
    ids = write(tmp_path, "21\t22\n", "ids.tsv")
    dev = read_mrpc(path, split="dev", dev_ids_path=ids)
    train = read_mrpc(path, split="train", dev_ids_path=ids)
    assert dev == [Example(3, 'c " d', "e", "0")]
    assert [row.line for row in train] == [2, 4]
    assert len(read_mrpc(path, split="test", dev_ids_path=ids)) == 3


@pytest.mark.parametrize(
    ("rows", "ids", "message"),
    [
        (
            "1\t11\t12\ta\n",
            "11\t12\n",
            r"a\.txt: line 2: found 4 tab-separated columns, expected 5",
        ),
        ("1\t11\t12\ta\tb\n", "11\t13\n", r"ids\.tsv: the pair 11, 13 is not in"),
        ("1\t11\t12\ta\tb\n", "11\n", r"ids\.tsv: line 1: found 1 tab-separated columns"),
    ],
)
def test_mrpc_refuses_malformed_files(tmp_path: Path, rows: str, ids: str, message: str) -> None:
    path, ids_path = write(tmp_path, HEADER + rows), write(tmp_path, ids, "ids.tsv")
    with pytest.raises(DataError, match=message):
        read_mrpc(path, split="dev", dev_ids_path=ids_path)


def test_conll_drops_or_keeps_document_starts(tmp_path: Path) -> None:
    content = "-DOCSTART- -X- O O\n\nAnna NNP I-NP I-PER\nsaw VBD I-VP O\nParis NNP I-NP I-LOC\n"
    path = write(tmp_path, content)
    assert read_sentences(path) == [
        Sentence(3, ["Anna", "saw", "Paris"], ["S-PER", "O", "S-LOC"]),
    ]
    assert read_sentences(path, keep_docstart=True)[0] == Sentence(1, ["-DOCSTART-"], ["O"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("Anna NNP I-PER\n", r"line 1: found 3 columns, expected 4"),
        ("a X O O\n\nb X O O\nc X O  O\n", r"line 4: found 4 columns, expected 4 separated by one"),
        ("a X O O\nb X O X-LOC\n", r"line 2: found the tag 'X-LOC', expected O, B-TYPE, I-TYPE"),
        ("a X O O\nb X O I-ORG\n", r"line 2: found the entity type 'ORG', expected LOC, PER"),
    ],
)
def test_conll_refuses_malformed_lines(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(DataError, match=rf"a\.txt: {message}"):
        read_sentences(write(tmp_path, content))


def read_bare(path: Path) -> list[Sentence]:
    reader = ConllReader(
        name="conll",
        columns=2,
        separator="tab",
        scheme="BIO",
        bare_type="PER",
        docstart="keep",
    )
    return reader.read(make_task(["LOC", "PER"]), "train", path)


def test_conll_gives_bare_tags_the_type_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "Anna\tB\nB .\tI\nsaw\tO\n\nIda\tB\nEve\tB\n\n")
    assert read_bare(path) == [
        Sentence(1, ["Anna", "B .", "saw"], ["B-PER", "E-PER", "O"]),
        Sentence(5, ["Ida", "Eve"], ["S-PER", "S-PER"]),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("Anna B\n", "line 1: found 1 column, expected 2 separated by one tab"),
        ("Anna\tB\nsaw\tB-PER\n", "line 2: found the tag 'B-PER', expected O, B, I"),
        ("Anna\tBI\n", "line 1: found the tag 'BI', expected O, B, I"),
        ("a\tO\nsaw\tI\n", "line 2: the tag I-PER continues no entity of its type"),
    ],
)
def test_conll_refuses_what_is_no_bare_tag(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(DataError, match=rf"a\.txt: {message}"):
        read_bare(write(tmp_path, content))


def read_three(folder: Path, words: str, tags: str, labels: str) -> list[Sentence]:
    write(folder, tags, "tags.txt")
    write(folder, labels, "labels.txt")
    task = make_task(["ask", "book"], tags_file="tags.txt", label_file="labels.txt")
    reader = ParallelReader(name="parallel", scheme="BIO")
    return reader.read(task, "train", write(folder, words, "words.txt"))


def read_wikiqa(path: Path) -> list[Example]:
    return WikiqaReader(name="wikiqa").read(make_task(), "train", path)


def test_parallel_reads_three_files_line_by_line(tmp_path: Path) -> None:
    found = read_three(tmp_path, "to  New York \nwho\n", "O B-LOC I-LOC \nB-PER\n", "book \nask\n")
    assert found == [
        Sentence(1, ["to", "New", "York"], ["O", "B-LOC", "E-LOC"], "book"),
        Sentence(2, ["who"], ["S-PER"], "ask"),
    ]


@pytest.mark.parametrize(
    ("words", "tags", "labels", "message"),
    [
        (
            "a\nb\n",
            "O\n",
            "ask\nask\n",
            r"tags\.txt: line 2: found the end .*words\.txt has more lines",
        ),
        ("a\n", "O\nO\n", "ask\n", r"words\.txt: line 2: found the end .*tags\.txt has more lines"),
        ("a\nb\n", "O\nO\n", "ask\n", r"labels\.txt: line 2: found the end of the file"),
        ("a\nb c\n", "O\nO\n", "ask\nask\n", r"tags\.txt: line 2: found 1 tag, expected 2"),
        ("a\n \n", "O\nO\n", "ask\nask\n", r"words\.txt: line 2: found no word"),
        (
            "a\n",
            "O\n",
            "sell\n",
            r"labels\.txt: line 1: found the label 'sell', expected 'ask', 'b",
        ),
        ("a\n", "B-ORG\n", "ask\n", r"tags\.txt: line 1: found the tag 'S-ORG', expected a type"),
        ("a b\n", "O I-LOC\n", "ask\n", r"tags\.txt: line 1: tag 2: the tag I-LOC continues no"),
        ("a\n", "X\n", "ask\n", r"tags\.txt: line 1: tag 1: found the tag 'X', expected O"),
    ],
)
def test_parallel_refuses_malformed_lines(
    tmp_path: Path, words: str, tags: str, labels: str, message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_three(tmp_path, words, tags, labels)
    assert "\n" not in str(caught.value)


def test_wikiqa_groups_equal_questions_that_follow_each_other(tmp_path: Path) -> None:
    path = write(tmp_path, "q\ta\t0\nq\tb\t1\nr\tc\t0\nq\td\t0\n")
    rows = read_wikiqa(path)
    assert [row.group for row in rows] == [0, 0, 1, 2]
    assert rows[1] == Example(2, "q", "b", "1", 0)


def test_wikiqa_refuses_a_line_with_two_columns(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"line 2: found 2 tab-separated columns, expected 3"):
        read_wikiqa(write(tmp_path, "q\ta\t0\nq\tb\n"))


def test_vectors_are_read_in_file_order(tmp_path: Path) -> None:
    table = read_glove(write(tmp_path, "b 1 -2.5\na\u0085 0.125 3e-1\n"), dim=2)
    assert table.row_of == {"b": 0, "a\u0085": 1}
    expected = np.array([[1, -2.5], [0.125, 0.3]], dtype=np.float32)
    np.testing.assert_array_equal(table.vectors, expected)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a 1 2\nb 1\n", r"line 2: found a word and 1 numbers, expected 2"),
        ("a 1 2 3\n", r"line 1: found a word and 3 numbers, expected 2"),
        ("a 1 x\n", r"line 1: found no number"),
        ("a 1 nan\n", r"line 1: a number is not finite"),
        ("a 1 2\na 3 4\n", r"line 2: the word 'a' is also on line 1"),
    ],
)
def test_vectors_refuse_malformed_lines(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_glove(write(tmp_path, content), dim=2)
