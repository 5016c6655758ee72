"""Tables for papers: LaTeX, CSV, JSON, markdown and the figure as PDF."""

import csv
import io
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from nlp_core.cli import main
from nlp_core.config.published import NumberConfig
from nlp_core.errors import DataError
from nlp_core.report.comparison import read_comparison
from nlp_core.report.paper import FORMATS, PaperTable, name_macro
from nlp_core.report.significance import ColumnFinding, RowFinding, find_differences
from nlp_core.statistics import Interval

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> PaperTable:
    monkeypatch.chdir(ROOT)
    comparison = read_comparison("sample", ROOT)
    return PaperTable(comparison, find_differences(comparison, ROOT))


def test_latex_has_a_macro_for_each_number_and_balanced_braces(table: PaperTable) -> None:
    text = FORMATS["latex"](table)
    macros = re.findall(r"^\\newcommand\{\\([A-Za-z]+)\}\{([0-9.]+)\}  % (.*)$", text, re.MULTILINE)
    measured = [entry for entry in table.comparison.entries if entry.ours is not None]
    assert len(macros) == len(measured)
    score = table.comparison.results.cells["sample_answer_cnn"].metrics["test.map"]
    name, value, comment = next(item for item in macros if item[0].endswith("TestMap"))
    assert (name, value) == ("SampleSampleAnswerCnnTestMap", f"{score.mean:.2f}")
    assert comment.startswith("sample/sample_answer_cnn test.map, seeds 1,2,3, sha256 ")
    assert text.count("{") == text.count("}")
    for row in re.findall(r"^.* \\\\$", text, re.MULTILINE):
        assert row.count("&") >= 1
    assert text.count("\\caption") == len(table.comparison.parts)
    assert text.count("\\toprule") == text.count("\\bottomrule") == len(table.comparison.parts)


def test_only_a_row_that_differs_from_all_others_is_bold(table: PaperTable) -> None:
    part = table.comparison.parts[0]
    (entry,) = part.entries

    def find(letters: str) -> ColumnFinding:
        rows = [
            RowFinding(entry.row, 76.0, 3, Interval(70, 80), "a", None),
            RowFinding("other", 70.0, 3, Interval(60, 75), letters, None),
        ]
        return ColumnFinding(
            part.config.title, entry.column, "honest", rows, 300, "examples", 3.0, (1, 1)
        )

    assert "\\mathbf" in FORMATS["latex"](table._replace(findings=[find("b")]))
    assert "\\mathbf" not in FORMATS["latex"](table._replace(findings=[find("ab")]))
    assert "\\mathbf" in FORMATS["latex"](table._replace(findings=[find("a2")]))  # after z


def test_no_row_is_bold_next_to_one_that_no_test_covers(table: PaperTable) -> None:
    part = table.comparison.parts[0]
    (entry,) = part.entries
    rows = [
        RowFinding(entry.row, 76.0, 3, Interval(70, 80), "a", None),
        RowFinding("other", 70.0, 3, Interval(60, 75), "b", None),
    ]
    finding = ColumnFinding(
        part.config.title, entry.column, "honest", rows, 300, "examples", 3.0, (1, 1)
    )
    entries = [entry, replace(entry, row="other"), replace(entry, row="untested")]
    compared = table._replace(findings=[finding])
    assert compared.is_best(replace(part, entries=entries[:2]), entry)
    assert not compared.is_best(replace(part, entries=entries), entry)


def test_equal_remarks_share_a_note(table: PaperTable) -> None:
    part = table.comparison.parts[0]
    (entry,) = part.entries
    numbers = [NumberConfig(value=70.0, remark=text) for text in ("Wider.", "Wider.", "Deeper.")]
    entries = [
        replace(entry, row=f"row {idx}", number=number) for idx, number in enumerate(numbers)
    ]
    parts = [replace(part, entries=entries)]
    text = FORMATS["latex"](table._replace(comparison=replace(table.comparison, parts=parts)))
    assert re.findall(r"70\.\d+\$\^\{(\d)\}\$", text) == ["1", "1", "2"]
    assert re.findall(r"\$\^\{(\d)\}\$ (\w+)", text) == [("1", "Wider"), ("2", "Deeper")]


def test_names_and_remarks_print_as_they_are_written(table: PaperTable) -> None:
    part = table.comparison.parts[0]
    (entry,) = part.entries
    number = NumberConfig(value=70.0, remark="p < 5 %, {a|b} > c_d.")
    entries = [
        replace(entry, row=row, column="A & B", number=number)
        for row in ("first", "[CLS] ~ x^2", "*ours #1 $")
    ]
    parts = [replace(part, entries=entries)]
    text = FORMATS["latex"](table._replace(comparison=replace(table.comparison, parts=parts)))
    assert r"p \textless{} 5 \%, \{a\textbar{}b\} \textgreater{} c\_d.\par" in text
    assert r"{A \& B}" in text
    # directly after the end of a row, [ and * would be its options
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert any(
        line.startswith(r"{}[CLS] \textasciitilde{} x\textasciicircum{}2 &") for line in rows
    )
    assert any(line.startswith(r"{}*ours \#1 \$ &") for line in rows)


def test_a_table_without_any_number_has_a_header(table: PaperTable) -> None:
    empty = table._replace(comparison=replace(table.comparison, parts=[]))
    (line,) = FORMATS["csv"](empty).splitlines()
    assert line.startswith("table,part,row,")
    assert FORMATS["json"](empty) == "[]\n"


def test_two_numbers_never_share_a_macro(table: PaperTable) -> None:
    part = table.comparison.parts[0]
    (entry,) = part.entries
    others = [replace(entry, metric=name) for name in ("test.f1@a-b", "test.f1@a_b")]
    parts = [replace(part, entries=others)]
    both = table._replace(comparison=replace(table.comparison, parts=parts))
    with pytest.raises(DataError, match="would have one macro"):
        FORMATS["latex"](both)


def test_a_table_with_many_columns_has_a_row_for_each_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    text = FORMATS["latex"](PaperTable(read_comparison("glue", ROOT), []))
    first = text.split("\\begin{tabular}")[1]
    assert first.startswith("{lrrrr}")
    assert r"\multicolumn{2}{c}{BiLSTM} & \multicolumn{2}{c}{BiLSTM+Attn}" in first
    assert re.search(r"^SST-2 \(honest\) & 87\.5 & \$8", first, re.MULTILINE)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "grid").glob("*.yaml")))
def test_latex_compiles(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = FORMATS["latex"](PaperTable(read_comparison(name, ROOT), []))
    document = (
        "\\documentclass{article}\\usepackage{booktabs,adjustbox}\\begin{document}\n"
        f"{text}\\end{{document}}\n"
    )
    (tmp_path / "paper.tex").write_text(document, encoding="utf-8")
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout
    assert (tmp_path / "paper.pdf").exists()


def test_csv_and_json_hold_the_same_numbers(table: PaperTable) -> None:
    records = json.loads(FORMATS["json"](table))
    rows = list(csv.DictReader(io.StringIO(FORMATS["csv"](table))))
    assert len(records) == len(rows) == 5
    for record, row in zip(records, rows, strict=True):
        assert {key: "" if value is None else str(value) for key, value in record.items()} == row
        assert record["low"] < record["mean"] < record["high"]


def test_markdown_is_that_of_the_report(table: PaperTable) -> None:
    report = (ROOT / "reports/sample.md").read_text(encoding="utf-8")
    for part in FORMATS["markdown"](table).strip().split("\n\n"):
        assert part in report


def test_macros_have_letters_only() -> None:
    assert name_macro("glue", "sst2_bilstm_100d", "dev.f1") == (
        "GlueSstTwoBilstmOneZeroZeroDDevFOne"
    )


def test_the_command_prints_a_format_and_writes_a_figure(
    table: PaperTable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["tables", "sample", "--format", "latex"])
    assert capsys.readouterr().out == FORMATS["latex"](table)
    main(["tables", "sample", "--format", "json", "--figure", str(tmp_path / "a.pdf")])
    printed = capsys.readouterr()
    assert printed.out == FORMATS["json"](table)
    assert "a.pdf: written" in printed.err
    for name in ("a.pdf", "b.pdf"):
        main(["tables", "sample", "--figure", str(tmp_path / name)])
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / "a.pdf").read_bytes() == (tmp_path / "b.pdf").read_bytes()
    capsys.readouterr()
    for options, message in [
        (["--format", "csv"], "need the NAME of a table"),
        (["sample", "--figure", "a.svg"], "expected the name of a PDF file"),
    ]:
        with pytest.raises(SystemExit) as stop:
            main(["tables", *options])
        assert stop.value.code == 2
        assert message in capsys.readouterr().err
