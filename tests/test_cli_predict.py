"""`reglue predict` of a list, of a terminal and of a pipe."""

import csv
import io
import json
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest

from nlp_core.cli import main
from nlp_core.cli.predict import _format_cell
from nlp_core.config.user_data import DataConfig
from nlp_core.errors import ConfigError
from nlp_core.prediction.predictor import Predictor
from nlp_core.prediction.trained_model import TrainedModel
from tests.user_commands import fail, trained

__all__ = ["trained"]
pytestmark = pytest.mark.usefixtures("place")


def test_predictions_of_a_list_are_those_one_by_one(trained: Path) -> None:
    predictor = Predictor(TrainedModel.open(trained / "out"))
    texts = ["the soup", "", "a very very polite waiter and it was", "zzz", "Money !"]
    together = predictor.predict(texts)
    alone = [predictor.predict([text])[0] for text in texts]
    assert [item.prediction for item in together] == [item.prediction for item in alone]
    for one, other in zip(together, alone, strict=True):
        assert one.confidence == pytest.approx(other.confidence, abs=1e-5)
        assert one.probability is not None
        assert one.probability.sum() == pytest.approx(1, abs=1e-5)
    assert predictor.predict([]) == []


def test_a_text_alone_is_not_taken_for_a_list_of_letters(trained: Path) -> None:
    with pytest.raises(ConfigError, match="found a text, expected a list"):
        Predictor(TrainedModel.open(trained / "out")).predict("soup")


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([None], "input 1: found None of the type NoneType, expected a text or a list of texts"),
        (["soup", 1], "input 2: found 1 of the type int"),
        ([["soup", 2.5]], "input 1: found 2.5 of the type float"),
        ([b"soup"], "input 1: found b'soup' of the type bytes"),
        ([{"text": "soup"}], "input 1: found {'text': 'soup'} of the type dict"),
        (None, "predict: found a NoneType, expected a list of inputs"),
    ],
)
def test_what_is_no_text_is_named(
    trained: Path,
    inputs: Any,  # Any: what a caller may pass
    message: str,
) -> None:
    predictor = Predictor(TrainedModel.open(trained / "out"))
    for call in (predictor.predict, predictor.embed):
        with pytest.raises(ConfigError) as caught:
            call(inputs)
        assert message in str(caught.value)


@pytest.mark.parametrize("least", [2, -0.1, float("nan"), "x"])
def test_a_threshold_that_is_no_probability_is_an_error(
    trained: Path,
    least: Any,  # Any: what a caller may pass
) -> None:
    with pytest.raises(ConfigError, match=r"found .*, expected a number from 0 to 1, or 'auto'"):
        Predictor(TrainedModel.open(trained / "out"), abstain_below=least)


def test_a_file_keeps_its_cells_and_an_archive_stays(
    trained: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("a.csv").write_bytes(b'text,x\n"the\rsoup",1\n')
    call = ["predict", str(trained / "out"), "--set", "data.format=csv", "--data"]
    main([*call, "a.csv", "-o", "p.csv"])
    with Path("p.csv").open(newline="") as file:
        assert next(csv.DictReader(file))["text"] == "the\rsoup"
    with ZipFile("a.zip", "w") as archive:
        archive.write("a.csv")
    before = Path("a.zip").read_bytes()
    assert "-o names a ZIP or gzip file" in fail(capsys, *call, "a.zip", "-o", "a.zip")
    assert Path("a.zip").read_bytes() == before


def test_an_output_named_parquet_is_refused_if_the_data_are_not(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["predict", str(trained / "out"), "--data", str(trained / "dev.tsv"), "-o", "p.parquet"]
    assert "p.parquet: found a name that says parquet, but this model's data" in fail(capsys, *call)
    assert not Path("p.parquet").exists()


def test_a_model_of_a_table_can_read_a_text_on_each_line(trained: Path) -> None:
    Path("t.txt").write_text('a polite waiter\nthe "bill\n')
    whole = ["--set", "data.header=false", "--set", "data.texts.0=1"]
    main(["predict", str(trained / "out"), "--data", "t.txt", "-o", "p.txt", *whole])
    rows = [line.split("\t") for line in Path("p.txt").read_text().splitlines()]
    assert [row[:2] for row in rows] == [["a polite waiter", "staff"], ['the "bill', "price"]]
    main(["embed", str(trained / "out"), "--data", "t.txt", "-o", "p.npy", *whole])
    assert len(np.load("p.npy")) == 2


@pytest.mark.parametrize("ending", [".gz", ".ZIP"])
def test_an_output_is_not_named_as_an_archive(
    trained: Path, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    target = f"p.tsv{ending}"
    call = ["predict", str(trained / "out"), "--data", str(trained / "dev.tsv"), "-o", target]
    message = fail(capsys, *call)
    assert f"{target}: -o: found a name that ends in {ending}, expected that of a plain" in message
    assert "name it p.tsv and compress it afterwards" in message
    assert not Path(target).exists()


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("two\nlines", '"two\\nlines"'),
        ("a\tb", '"a\\tb"'),
        ("plain", "plain"),
        (["a", "b"], "a b"),
        (0.5, "0.5"),
    ],
)
def test_a_cell_of_standard_output_has_no_breaks(value: object, shown: str) -> None:
    assert _format_cell(value) == shown


class Typed:
    """Standard input from a person."""

    def __init__(self, *lines: str) -> None:
        self.lines = [f"{line}\n" for line in lines]

    def isatty(self) -> bool:
        return True

    def readline(self, size: int = -1) -> str:
        return self.lines.pop(0) if self.lines else ""

    def fileno(self) -> int:
        raise OSError("not a file")


@pytest.mark.parametrize("end", [["exit", "the soup"], []])
def test_a_terminal_is_asked_until_exit_or_its_end(
    trained: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    end: list[str],
) -> None:
    monkeypatch.setattr("sys.stdin", Typed("a polite waiter", "the bill", *end))
    main(["predict", str(trained / "out"), "--confidence-of", "staff"])
    shown = capsys.readouterr().out
    assert shown.count("prediction: ") == 2
    assert "prediction: staff" in shown
    assert "prediction: price" in shown
    assert shown.count("confidence_of_staff: ") == 2


def test_predict_answers_each_line_of_a_pipe(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("a polite waiter\nthe bill\n"))
    main(["predict", str(trained / "out"), "--confidence-of", "staff"])
    shown = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in shown] == ["staff", "price"]
    assert [len(line) for line in shown] == [3, 3]
    monkeypatch.setattr("sys.stdin", io.StringIO("the bill"))
    main(["predict", str(trained / "out"), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found == {"prediction": "price", "confidence": float(shown[1][1])}


def test_a_pipe_is_read_as_utf_8(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "the bill\n".encode("utf-8-sig")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text), encoding="ascii"))
    main(["predict", str(trained / "out")])
    assert capsys.readouterr().out.startswith("price")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9\n")))
    message = fail(capsys, "predict", str(trained / "out"))
    assert "standard input: found bytes that are not UTF-8" in message


def test_a_line_of_a_pipe_that_is_no_input_is_named(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(self: Predictor, inputs: list[Any]) -> None:
        raise ConfigError(f"found {inputs}, expected another input.")

    monkeypatch.setattr(Predictor, "predict", refuse)
    monkeypatch.setattr("sys.stdin", io.StringIO("the bill\n"))
    message = fail(capsys, "predict", str(trained / "out"))
    assert "standard input, line 1: found ['the bill'], expected another input." in message
    names = property(lambda self: ["text_a", "text_b"])
    monkeypatch.setattr(DataConfig, "input_columns", names)
    monkeypatch.setattr("sys.stdin", io.StringIO("the bill\tthe soup\nthe soup\n"))
    message = fail(capsys, "predict", str(trained / "out"))
    assert "line 1: found [['the bill', 'the soup']], expected" in message
    monkeypatch.setattr("sys.stdin", io.StringIO("the soup\n"))
    message = fail(capsys, "predict", str(trained / "out"))
    assert "line 1: expected 2 texts separated by a tab (text_a, text_b), found 1." in message
