"""`--json` of the commands that write a file or check the machine."""

import json
from pathlib import Path
from typing import Any

import pytest

from nlp_core import probe
from nlp_core.cli import main
from tests.user_files import QUICK, write_tsv

ROOT = Path(__file__).resolve().parent.parent


def read(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:  # Any: JSON
    """Run a command, whose standard output must be JSON and nothing else."""
    main([*arguments, "--json"])
    return json.loads(capsys.readouterr().out)


def test_a_model_from_file_to_vectors(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tsv(place / "a.tsv", rows=40, header="text\tlabel")
    made = read(capsys, "new", "classification", "--train", "a.tsv", "-o", "m.json")
    assert made["model"] == "m.json"
    assert made["next"] == "reglue train m.json --train a.tsv"
    label = next(item for item in made["data"] if item["key"] == "label")
    assert label["value"] == "label"
    assert '"label"' in Path("m.json").read_text().split("\n")[label["line"] - 1]
    files = ["--train", "a.tsv", "--dev", "a.tsv", "-o", "out"]
    assert "accuracy" in read(capsys, "train", "m.json", *files, *QUICK)["dev"]
    found = read(capsys, "predict", "out", "--data", "a.tsv", "-o", "p.tsv")
    assert found == {"output": "p.tsv", "rows": 40}
    found = read(capsys, "embed", "out", "--data", "a.tsv", "-o", "v.npy")
    assert found["rows"] == 40
    assert found["width"] > 0
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    with pytest.raises(SystemExit):
        main(["predict", "out", "--json"])
    assert "found --json on a terminal" in capsys.readouterr().err


def test_a_new_model_file_takes_changes(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_tsv(place / "a.tsv", rows=40, header="text\tlabel")
    new = ["new", "classification", "--train", "a.tsv", "-o", "m.json"]
    with pytest.raises(SystemExit):
        main([*new, "--set", "training.epoch=3"])
    assert "Did you mean 'epochs'" in capsys.readouterr().err
    assert not Path("m.json").exists()
    read(capsys, *new, "--set", "training.epochs=3", "--set", "layers.lstm.hidden_dim=8")
    made = json.loads(Path("m.json").read_text())
    assert made["training"]["epochs"] == 3
    assert {"batch_size", "optimizer", "schedule", "patience"} <= set(made["training"])
    (lstm,) = [layer for layer in made["layers"] if layer["name"] == "lstm"]
    assert lstm["hidden_dim"] == 8


def test_a_new_model_file_reads_and_shows_what_was_set(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"good film {n},x{n % 2},y{n % 3}\n" for n in range(20))
    Path("a b.csv").write_text(f"text,label,gold\n{rows}")
    Path("dev.csv").write_text("text,gold\ngood film,y1\n")
    new = ["new", "classification", "--train", "a b.csv", "--dev", "dev.csv", "-o", "m.json"]
    with pytest.raises(SystemExit):
        main([*new, "--set", "data.label=golden"])
    assert "a b.csv: line 2: found no column 'golden'. Did you mean 'gold'?" in (
        capsys.readouterr().err
    )
    assert not Path("m.json").exists()
    made = read(capsys, *new, "--set", "data.label=gold", "--set", "data.max_tokens=9")
    shown = {item["key"]: (item["value"], item["reason"]) for item in made["data"]}
    assert shown["label"] == ("gold", "as given")
    assert shown["max_tokens"] == (9, "as given")
    assert shown["header"] == (True, "the first line names the columns")
    assert made["next"] == "reglue train m.json --train 'a b.csv' --dev dev.csv"


def test_the_doctor_names_what_differs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    committed = json.loads(Path("reports/probe.json").read_text())["operations"]
    changed = probe.Probe({**committed, "gelu": "0"}, "0")
    monkeypatch.setattr(probe, "run_probe", lambda: changed)
    with pytest.raises(SystemExit) as caught:
        main(["doctor", "--json"])
    assert caught.value.code == 1
    found = json.loads(capsys.readouterr().out)
    assert found["different"] == ["gelu"]
    assert found["operations"] == len(committed)
    assert found["fingerprint"]["device"] == "cpu"
