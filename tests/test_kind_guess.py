"""The kind of data of a user's file, and files that look like something they are not."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nlp_core.cli import main
from nlp_core.config.user_data import DataConfig
from nlp_core.data.format_guess import guess_format, guess_separator
from nlp_core.data.guess import guess_data, guess_texts
from nlp_core.data.kind_guess import guess_kind
from nlp_core.data.readers.records import read_named, read_records
from nlp_core.data.readers.user import read_examples
from nlp_core.errors import DataError
from nlp_core.kinds import (
    CLASSIFICATION,
    DIALOGUE,
    MULTI_LABEL,
    PAIR_CLASSIFICATION,
    PAIR_REGRESSION,
    PARSING,
    RANKING,
    REGRESSION,
    RETRIEVAL,
    SPAN,
    TAGGING,
    Kind,
)
from tests.user_files import put


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gap.tsv", "text\tlabel\n" + "a good film\tpos\n" * 9 + "\n" + "a bad film\tneg\n" * 9),
        ("end.tsv", "text\tlabel\n" + "a good film\tpos\na bad film\tneg\n" * 9 + "\n\n"),
        ("quoted.csv", "text,label\n" + '"One.\n\nTwo, too.",pos\nfine film,neg\n' * 9),
    ],
)
def test_blank_lines_do_not_make_tokens_of_a_table(tmp_path: Path, name: str, text: str) -> None:
    assert guess_kind(put(tmp_path / name, text)).kind == CLASSIFICATION


@pytest.mark.parametrize("name", ["tags.tsv", "tags.txt", "tags"])
def test_blank_lines_end_sentences_of_tokens(tmp_path: Path, name: str) -> None:
    path = put(tmp_path / name, "Anna\tB-PER\nleft\tO\n\nBonn\tB-LOC\n\n")
    assert guess_format(path, TAGGING) == "conll"
    assert guess_kind(path).kind == TAGGING


@pytest.mark.parametrize("name", ["short.tsv", "short.txt"])
def test_a_short_first_sentence_that_ends_as_the_last_one_is_no_table(
    tmp_path: Path, name: str
) -> None:
    path = put(tmp_path / name, "Hello\tO\n.\tO\n\nAnna\tB-PER\nleft\tO\n.\tO\n\n")
    assert guess_format(path, TAGGING) == "conll"
    assert guess_kind(path).kind == TAGGING


def test_a_missing_number_does_not_make_labels_of_numbers(tmp_path: Path) -> None:
    rows = [f"a film of {number / 7:.2f} stars\t{number / 7:.2f}\n" for number in range(40)]
    path = put(tmp_path / "stars.tsv", "text\tstars\n" + "".join(rows) + "a film\t\n")
    found = guess_kind(path).kind
    assert found == REGRESSION
    guess = guess_data(path, found)
    assert guess.doubts["label"] == "1 of the first rows has no number"
    with pytest.raises(DataError, match="line 42: found '' in 'stars', expected a number"):
        list(read_examples(path, guess.data))


def test_candidates_by_the_documented_names_are_a_ranking(tmp_path: Path) -> None:
    rows = [
        f"who won {number // 3}?,team {number},{int(number % 3 == 0)}\n" for number in range(60)
    ]
    for question in ("question", "query"):
        path = put(tmp_path / "rank.csv", f"{question},candidate,label\n" + "".join(rows))
        assert guess_kind(path).kind == RANKING


@pytest.mark.parametrize(
    ("columns", "row", "kind", "label"),
    [
        (
            "gold_label,sentence1,sentence2,label1",
            "{judged},{a},{b},{judged}",
            PAIR_CLASSIFICATION,
            "gold_label",
        ),
        ("premise,hypothesis,verdict", "{a},{b},{judged}", PAIR_CLASSIFICATION, "verdict"),
        (
            "pair_ID,sentence_A,sentence_B,source,judged",
            "{id},{a},{b},web,{judged}",
            PAIR_CLASSIFICATION,
            "judged",
        ),
        ("sentence1,sentence2,closeness", "{a},{b},{id}.5", PAIR_REGRESSION, "closeness"),
        ("sentence1,sentence2,number", "{a},{b},{id}", RETRIEVAL, ""),
        ("query,passage,site", "{a},{b},{judged}", RETRIEVAL, ""),
    ],
)
def test_a_pair_of_texts_with_a_column_of_few_values_has_labels(
    tmp_path: Path, columns: str, row: str, kind: Kind, label: str
) -> None:
    rows = [
        row.format(a=f"text {idx} of many words", b=f"another text {idx}", id=idx, judged=judged)
        for idx, judged in enumerate(["neutral", "entailment", "contradiction"] * 5)
    ]
    path = put(tmp_path / "pairs.csv", "\n".join([columns, *rows]) + "\n")
    assert guess_kind(path).kind == kind
    assert guess_data(path, kind).data.label == label


def test_blank_lines_before_a_table_say_nothing(tmp_path: Path) -> None:
    table = "\n\ntext\tlabel\n" + "a good film\tpos\na bad film\tneg\n" * 9
    path = put(tmp_path / "late.txt", table)
    assert guess_format(path, TAGGING) == "tsv"
    assert guess_kind(path).kind == CLASSIFICATION


def test_a_folder_of_brat_is_a_kind_of_data(tmp_path: Path) -> None:
    folder = tmp_path / "brat"
    folder.mkdir()
    put(folder / "a.txt", "Anna left Bonn\n")
    put(folder / "a.ann", "T1\tPER 0 4\tAnna\nT2\tLOC 10 14\tBonn\n")
    assert guess_kind(folder).kind == TAGGING


def test_a_folder_of_brat_without_entities_is_one_paragraph(tmp_path: Path) -> None:
    folder = tmp_path / "brat"
    folder.mkdir()
    put(folder / "a.txt", "Anna left Bonn\n")
    for read in (lambda: guess_data(folder, CLASSIFICATION), lambda: guess_texts(folder)):
        with pytest.raises(DataError, match="found a folder of brat, which has only entities"):
            read()


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({"text": "Anna left Bonn", "label": [[0, 4, "PER"], [10, 14, "LOC"]]}, TAGGING),
        ({"text": "[NAME] left", "label": "one"}, CLASSIFICATION),
        ({"text": "[Anna] left", "label": "[IN:GO Anna [SL:HOW left ] ]"}, PARSING),
    ],
)
def test_a_bracket_alone_makes_no_tree(tmp_path: Path, row: dict[str, object], kind: Kind) -> None:
    path = put(tmp_path / "a.jsonl", f"{json.dumps(row)}\n" * 4)
    assert guess_kind(path).kind == kind
    data = guess_data(path, kind).data
    assert (data.texts, data.label) == (["text"], "label")


def test_only_paragraphs_make_a_file_of_questions(tmp_path: Path) -> None:
    rows = [{"text": f"a film {n}", "label": "pos" if n % 2 else "neg"} for n in range(20)]
    table = put(tmp_path / "table.json", json.dumps({"schema": {}, "data": rows}))
    assert guess_kind(table).kind == CLASSIFICATION
    squad = put(tmp_path / "squad.json", json.dumps({"data": [{"paragraphs": []}]}))
    assert guess_kind(squad).kind == SPAN
    with pytest.raises(DataError, match="nested too deeply"):
        guess_kind(put(tmp_path / "deep.json", "[" * 200_000))


def test_json_lines_are_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [json.dumps({"text": f"a film {n}", "label": f"l{n % 2}"}) for n in range(20)]
    path = put(tmp_path / "a.json", "\n" + "\n".join(lines))
    monkeypatch.delattr(Path, "read_text")
    assert guess_format(path, CLASSIFICATION) == "jsonl"
    assert guess_kind(path).kind == CLASSIFICATION


@pytest.mark.parametrize(
    ("kind", "header"), [("ranking", "qid,text,label"), ("retrieval", "text,label")]
)
def test_too_few_columns_of_texts_are_named(
    tmp_path: Path, kind: str, header: str, capsys: pytest.CaptureFixture[str]
) -> None:
    begin = "q" if header.startswith("qid") else ""
    rows = "".join(f"{begin and f'{n // 2},'}words of a text {n},{n % 2}\n" for n in range(20))
    path = put(tmp_path / "a.csv", f"{header}\n{rows}")
    with pytest.raises(SystemExit) as caught:
        main(["train", str(path), "--kind", kind, "-o", str(tmp_path / "out")])
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert "found 1 column of texts (text), expected 2" in error


def test_rows_of_empty_cells_are_skipped_in_every_format(tmp_path: Path) -> None:
    cells = {"text": ["good", "", None, "bad"], "label": ["pos", "", None, "neg"]}
    pq.write_table(pa.table(cells), tmp_path / "a.parquet")
    assert [row.cells["label"] for row in read_named(tmp_path / "a.parquet", "parquet")] == [
        "pos",
        "neg",
    ]
    path = put(tmp_path / "a.csv", "text,label\ngood film,pos\n,\nbad film,neg\n,\n")
    assert guess_data(path, CLASSIFICATION).reasons["label"] == "2 labels: neg, pos"
    assert guess_separator(put(tmp_path / "empty.csv", '""\n')) == ","


def test_a_first_line_that_names_the_separator_for_excel_is_no_row(tmp_path: Path) -> None:
    rows = "".join(f"a film, number {n};{'pos' if n % 2 else 'neg'}\n" for n in range(8))
    path = put(tmp_path / "a.csv", f"sep=;\nreview;mood\n{rows}")
    data = guess_data(path, CLASSIFICATION).data
    assert (data.separator, data.header, data.texts, data.label) == (";", True, ["review"], "mood")
    first = next(read_records(path, data))
    assert (first.cells["mood"], first.lines) == ("neg", [3])


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
def test_numbers_with_a_decimal_comma_are_numbers(tmp_path: Path, name: str) -> None:
    mark = "\t" if name == "a.tsv" else ";"
    rows = [f"ein guter Film {n}{mark}{n % 7},{n % 3 + 1}" for n in range(60)]
    path = put(tmp_path / name, "\n".join([f"Kommentar{mark}Note", *rows]) + "\n")
    assert guess_kind(path).kind == REGRESSION
    guess = guess_data(path, REGRESSION)
    assert (guess.data.texts, guess.data.label) == (["Kommentar"], "Note")
    assert guess.reasons["label"] == "numbers from 0.1 to 6.3"
    assert next(read_examples(path, guess.data, labelled=True)).targets == {"label": ["0.1"]}
    with pytest.raises(DataError, match="found '1,234' in 'Note', expected a number"):
        list(
            read_examples(
                put(path, f"Kommentar{mark}Note\na film{mark}1,234\n"), guess.data, labelled=True
            )
        )
    bare = put(tmp_path / f"b{name}", "\n".join(rows) + "\n")
    assert guess_data(bare, REGRESSION).data.label == "2"


def test_lists_of_labels_between_commas_are_not_numbers(tmp_path: Path) -> None:
    rows = [f"a film {n};{n % 4},{4 + n % 3},7" for n in range(30)]
    path = put(tmp_path / "a.csv", "\n".join(["text;labels", *rows]) + "\n")
    assert guess_kind(path).kind == MULTI_LABEL


def test_lists_of_one_label_are_one_label(tmp_path: Path) -> None:
    rows = [{"text": f"a film {n}", "label": ["pos" if n % 2 else "neg"]} for n in range(20)]
    path = put(tmp_path / "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    guess = guess_kind(path)
    assert (guess.kind, "--kind multi_label" in guess.doubt) == (CLASSIFICATION, True)
    assert guess_data(path, CLASSIFICATION).reasons["label"] == "2 labels: neg, pos"
    rows[3]["label"] = ["neg", "pos"]
    path = put(tmp_path / "b.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert guess_kind(path).kind == MULTI_LABEL


def test_a_row_without_a_label_names_the_way_to_leave_it_out(tmp_path: Path) -> None:
    path = put(tmp_path / "a.csv", "text,label\n" + "a good film,pos\na film,\na bad one,neg\n" * 5)
    guess = guess_data(path, CLASSIFICATION)
    assert guess.reasons["label"] == "2 labels: neg, pos"
    with pytest.raises(DataError, match=r"""line 3: .*--set 'data\.where=\{"label": "\.\+"\}'"""):
        list(read_examples(path, guess.data, labelled=True))
    chosen = guess.data.model_copy(update={"where": {"label": ".+"}})
    assert len(list(read_examples(path, chosen, labelled=True))) == 10


def test_columns_of_objects_are_named_where_no_label_is_found(tmp_path: Path) -> None:
    row = {"id": 1, "data": {"text": "a film"}, "answer": {"label": "pos"}}
    path = put(tmp_path / "a.jsonl", f"{json.dumps(row)}\n" * 3)
    with pytest.raises(DataError, match="objects in data, answer are not read; write their values"):
        guess_kind(path)


@pytest.mark.parametrize("text", [",,\n,,\n", '""\n'])
def test_a_table_of_empty_cells_is_one_paragraph(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError, match="found only empty cells, expected at least one row"):
        guess_kind(put(tmp_path / "a.csv", text))


def test_trees_without_their_texts_are_one_paragraph(tmp_path: Path) -> None:
    path = put(tmp_path / "a.tsv", "text\tlabel\n[IN:A go ]\t[IN:B go ]\n")
    with pytest.raises(DataError, match=r"found trees in every column \(text, label\)"):
        guess_data(path, PARSING)


def test_a_dialogue_has_no_entities_by_offsets(tmp_path: Path) -> None:
    row = {"text": "to Rome", "history": ["hi"], "tags": [[3, 7, "LOC"]], "intent": "go"}
    path = put(tmp_path / "a.jsonl", f"{json.dumps(row)}\n")
    with pytest.raises(DataError, match="expected a tag for each token"):
        guess_data(path, DIALOGUE)
    columns = {"texts": ["text", "history"], "label": "intent", "tags": "tags"}
    with pytest.raises(ValueError, match="scheme: found spans with dialogue"):
        DataConfig.model_validate(
            {"kind": "dialogue", "format": "jsonl", "scheme": "spans", **columns}
        )


def test_a_missing_label_or_tag_is_not_a_word(tmp_path: Path) -> None:
    line = '{"text": "a film", "label": NaN, "tags": ["NN", null]}\n'
    (record,) = read_named(put(tmp_path / "a.jsonl", line), "jsonl")
    assert record.get("label") is None
    with pytest.raises(DataError, match="expected a list"):
        record.get_list("tags")


def test_a_parquet_column_that_python_cannot_hold_is_one_paragraph(tmp_path: Path) -> None:
    far = pa.array([2**62], pa.int64()).cast(pa.timestamp("ms"))
    pq.write_table(pa.table({"text": ["a"], "date": far}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="not a readable parquet file"):
        list(read_named(tmp_path / "a.parquet", "parquet"))


def test_a_label_of_bytes_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["a b", "c d"], "label": [b"x", b"y"]}), path)
    with pytest.raises(DataError, match="line 1: found b'x' in 'label', expected a label"):
        list(read_examples(path, guess_data(path, CLASSIFICATION).data))


def test_arrow_files_without_a_state_are_not_joined(tmp_path: Path) -> None:
    def write_arrow(name: str, *columns: str) -> None:
        arrays = [pa.array(["a"]) for _ in columns]
        table = pa.Table.from_arrays(arrays, names=[*columns])
        with (
            pa.OSFile(str(tmp_path / name), "wb") as sink,
            pa.ipc.new_stream(sink, table.schema) as writer,
        ):
            writer.write_table(table)

    write_arrow("a-test.arrow", "text", "label")
    assert len(list(read_named(tmp_path, "arrow"))) == 1
    write_arrow("a-train.arrow", "text", "label")
    with pytest.raises(DataError, match=r"found 2 files and no state\.json"):
        list(read_named(tmp_path, "arrow"))
    for odd in ('{"_data_files": 3}', '{"_data_files": [3, {"filename": "a-test.arrow"}]}'):
        put(tmp_path / "state.json", odd)
        with pytest.raises(DataError, match=r"state\.json: found no names of data files"):
            list(read_named(tmp_path, "arrow"))
    write_arrow("twice.arrow", "text", "text")
    with pytest.raises(DataError, match="found two columns 'text'"):
        list(read_named(tmp_path / "twice.arrow", "arrow"))
