"""`reglue new`, `train`, `test` and `predict` on files of one's own, as a user would run them."""

import json
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from nlp_core.cli import main
from nlp_core.files import digest_file
from nlp_core.training.predictor import Predictor
from tests.own_files import QUICK, SMALL, make_texts, write_conll, write_pairs, write_tsv


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working folder of the test, with a cache of its own; log handlers are put back."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGLUE_CACHE", str(tmp_path / "cache"))
    handlers = logging.root.handlers[:]
    yield tmp_path
    logging.root.handlers[:] = handlers


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model of five labels, and the files it was made from."""
    folder = tmp_path_factory.mktemp("trained")
    train = write_tsv(folder / "train.tsv", rows=100, header="text\tlabel")
    dev = write_tsv(folder / "dev.tsv", rows=30, seed=1, header="text\tlabel")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGLUE_CACHE", str(folder / "cache"))
        model = str(folder / "model.json")
        main(["new", "classification", "--train", str(train), "-o", model])
        files = ["--train", str(train), "--dev", str(dev)]
        main(["train", model, *files, "-o", str(folder / "out"), *QUICK])
    return folder


def fail(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command that must fail, and return its one paragraph."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        main(list(arguments))
    assert caught.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("error: ")
    assert "Traceback" not in "".join(lines)
    return lines[-1]


def test_five_labels_are_learnt_and_predicted_with_no_edit(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tsv(place / "a.tsv", rows=120)
    write_tsv(place / "b.tsv", rows=30, seed=1)
    main(["new", "classification", "--train", "a.tsv", "-o", "m.json"])
    shown = capsys.readouterr().out
    assert "5 labels: food, place, price, room, staff" in shown
    assert "reglue train m.json --train a.tsv" in shown
    main(["train", "m.json", "--train", "a.tsv", "--dev", "b.tsv", "-o", "out", *QUICK])
    found = json.loads((place / "out/metrics.json").read_text())
    assert found["metrics"]["dev"]["accuracy"] > 90
    assert not (place / "out.work").exists()
    main(["predict", "out", "--data", "b.tsv", "-o", "p.tsv", "--confidence-of", "food"])
    rows = [line.split("\t") for line in (place / "p.tsv").read_text().splitlines()]
    wanted = make_texts(30, seed=1)
    assert [row[:2] for row in rows] == [list(pair) for pair in wanted]
    assert sum(row[1] == row[2] for row in rows) / 30 * 100 == pytest.approx(
        found["metrics"]["dev"]["accuracy"], abs=1e-4
    )
    assert all(0.2 <= float(row[3]) <= 1 and 0 <= float(row[4]) <= 1 for row in rows)


def test_pairs_of_a_jsonl_file_keep_their_keys(place: Path) -> None:
    write_pairs(place / "a.jsonl", rows=40)
    main(["new", "matching", "--train", "a.jsonl", "-o", "m.json"])
    section = json.loads((place / "m.json").read_text())["data"]
    assert section["texts"] == ["premise", "hypothesis"]
    assert section["label"] == "gold"
    main(["train", "m.json", "--train", "a.jsonl", "-o", "out", *SMALL, "--epochs", "1"])
    main(["predict", "out", "--data", "a.jsonl", "-o", "p.jsonl"])
    rows = [json.loads(line) for line in (place / "p.jsonl").read_text().splitlines()]
    keys = ["id", "premise", "hypothesis", "gold", "prediction", "confidence"]
    assert [list(row) for row in rows] == [keys] * 40
    assert {row["prediction"] for row in rows} <= {"same", "other"}


@pytest.mark.parametrize("template", ["regression", "similarity", "ranking"])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_numbers_and_ranks_are_learnt_from_tables(place: Path, template: str, suffix: str) -> None:
    rows = [
        {
            "question": "the soup",
            "answer": f"{text}, it is",
            "score": str(label in ("food", "room")),
        }
        for text, label in make_texts(40, seed=0)
    ]
    table = pa.Table.from_pylist(rows)
    scores = [float(row["score"] == "True") for row in rows]
    table = table.set_column(
        2, "score", pa.array([1 if s else 0 for s in scores] if template == "ranking" else scores)
    )
    if template == "regression":
        table = table.drop_columns(["question"])
    path = place / f"a.{suffix}"
    (pq.write_table if suffix == "parquet" else pa_csv.write_csv)(table, path)
    main(["new", template, "--train", path.name, "-o", "m.json"])
    main(
        [
            "train",
            "m.json",
            "--train",
            path.name,
            "--dev",
            path.name,
            "-o",
            "out",
            *SMALL,
            "--epochs",
            "1",
        ]
    )
    main(["predict", "out", "--data", path.name, "-o", f"p.{suffix}"])
    read = pq.read_table if suffix == "parquet" else pa_csv.read_csv
    found = read(place / f"p.{suffix}")
    wanted = ["prediction"] if template != "ranking" else ["prediction", "confidence"]
    assert found.column_names == [*table.column_names, *wanted]
    assert found.select(table.column_names).to_pylist() == table.to_pylist()
    answers = found.column("prediction").to_pylist()
    if template == "ranking":
        assert {str(answer) for answer in answers} <= {"0", "1"}
    else:
        assert len(set(answers)) > 10
        alone = Predictor.load("out").predict(
            [tuple(rows[3].values())[:2] if template == "similarity" else rows[3]["answer"]]
        )
        assert alone[0].prediction == pytest.approx(answers[3], abs=1e-5)
        assert alone[0].confidence is None


@pytest.mark.parametrize("scheme", ["BIO", "IOB1", "BIOES", "plain"])
def test_an_unknown_tagging_scheme_is_found_and_learnt(place: Path, scheme: str) -> None:
    write_conll(place / "a.conll", scheme)
    main(["new", "tagging", "--train", "a.conll", "-o", "m.json"])
    section = json.loads((place / "m.json").read_text())["data"]
    assert (section["scheme"], section["texts"], section["label"]) == (scheme, ["1"], "3")
    main(["train", "m.json", "--train", "a.conll", "-o", "out", *QUICK])
    metrics = json.loads((place / "out/metrics.json").read_text())["metrics"]["dev"]
    assert metrics["accuracy" if scheme == "plain" else "f1"] > 90, metrics
    main(
        ["predict", "out", "--data", "a.conll", "-o", "p.conll", "--confidence-of", "O"]
        if scheme != "plain"
        else ["predict", "out", "--data", "a.conll", "-o", "p.conll"]
    )
    before = (place / "a.conll").read_text().splitlines()
    after = (place / "p.conll").read_text().splitlines()
    assert len(before) == len(after)
    assert all(new.startswith(old) for old, new in zip(before, after, strict=True))
    assert {len(line.split()) for line in after if line} == {5 if scheme == "plain" else 6}


def test_predictions_of_a_list_are_those_one_by_one(trained: Path) -> None:
    predictor = Predictor.load(trained / "out")
    texts = ["the soup", "", "a very very polite waiter and it was", "zzz", "Money !"]
    together = predictor.predict(texts)
    alone = [predictor.predict([text])[0] for text in texts]
    assert [item.prediction for item in together] == [item.prediction for item in alone]
    for one, other in zip(together, alone, strict=True):
        assert one.confidence == pytest.approx(other.confidence, abs=1e-5)
        assert one.probability is not None
        assert one.probability.sum() == pytest.approx(1, abs=1e-5)
    assert predictor.predict([]) == []


def test_test_measures_what_train_measured(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["test", str(trained / "out"), "--data", str(trained / "dev.tsv"), "--json"])
    found = json.loads(capsys.readouterr().out)
    wanted = json.loads((trained / "out/metrics.json").read_text())["metrics"]["dev"]
    assert found == pytest.approx(wanted, abs=1e-5)


def test_a_finished_folder_is_not_replaced_unasked(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["train", str(trained / "model.json"), "--train", str(trained / "train.tsv")]
    assert "--force" in fail(capsys, *arguments, "-o", str(trained / "out"))
    other = fail(capsys, *arguments, "--force", "-o", str(trained))
    assert "no trained model" in other
    assert (trained / "train.tsv").exists()
    model = ["new", "classification", "--train", str(trained / "train.tsv")]
    assert "is there already" in fail(capsys, *model, "-o", str(trained / "model.json"))


def test_without_dev_a_tenth_is_held_out_and_said_so(
    trained: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(trained / "train.tsv", "train.tsv")
    arguments = ["train", str(trained / "model.json"), "--train", "train.tsv", *SMALL]
    main([*arguments, "--epochs", "1", "-o", "out"])
    assert "10 of 100 rows are held out" in capsys.readouterr().err
    main([*arguments, "--epochs", "1", "-o", "again"])
    names = ["model.safetensors", "metrics.json", "history.jsonl", "vocabulary.json", "run.json"]
    for name in names:
        assert digest_file(place / "out" / name) == digest_file(place / "again" / name)
    main([*arguments, "--epochs", "1", "-o", "third", "--seed", "2"])
    weights = [digest_file(place / folder / names[0]) for folder in ("out", "third")]
    assert weights[0] != weights[1]


def test_a_killed_run_goes_on_and_ends_with_the_same_weights(
    trained: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["train", str(trained / "model.json"), "--train", str(trained / "train.tsv")]
    arguments += [*SMALL, "--epochs", "3"]
    main([*arguments, "-o", "whole"])
    steps = []

    def kill(optimizer: object) -> None:
        steps.append(1)
        if len(steps) == 30:
            raise KeyboardInterrupt
        update(optimizer)  # type: ignore[arg-type]

    from nlp_core.training import loop

    update = loop.update_weights
    with monkeypatch.context() as patch:
        patch.setattr(loop, "update_weights", kill)
        with pytest.raises(SystemExit) as caught:
            main([*arguments, "-o", "killed"])
    assert caught.value.code == 130
    assert not (place / "killed").exists()
    assert list((place / "killed.work").glob("*.safetensors"))
    taken = []
    monkeypatch.setattr(
        loop, "update_weights", lambda optimizer: (taken.append(1), update(optimizer))
    )
    main([*arguments, "-o", "killed"])
    assert 0 < len(taken) < 3 * 12
    weights = [digest_file(place / folder / "model.safetensors") for folder in ("whole", "killed")]
    assert weights[0] == weights[1]
    assert not (place / "killed.work").exists()


def test_max_steps_ends_training(trained: Path, place: Path) -> None:
    arguments = ["train", str(trained / "model.json"), "--train", str(trained / "train.tsv")]
    main([*arguments, *SMALL, "-o", "out", "--set", "training.max_steps=5"])
    lines = (place / "out/history.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["event"] == "validate"
    assert max(json.loads(line)["step"] for line in lines) == 5


class Typed:
    """Standard input with a person behind it."""

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


def test_predict_never_waits_for_an_input_that_is_no_terminal(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with open("/dev/null") as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        message = fail(capsys, "predict", str(trained / "out"))
    assert "no terminal" in message
    assert "--data" in message


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["predict", "{out}", "--data", "{dev}"], "expected both"),
        (["predict", "{out}", "--data", "{dev}", "-o", "{dev}"], "names the file that is read"),
        (["predict", "{out}", "--data", "gone.tsv", "-o", "p.tsv"], "there is no such file"),
        (["predict", "gone", "--data", "{dev}", "-o", "p.tsv"], "found no trained model"),
        (
            ["predict", "{out}", "--data", "{dev}", "-o", "p.tsv", "--confidence-of", "foot"],
            "Did you mean 'food'",
        ),
        (["test", "{out}", "--data", "{dev}", "--set", "layers.lstm.hidden_dim=3"], "is trained"),
        (["train", "{model}", "--train", "{train}", "-o", "o", "--set", "x"], "expected a path"),
        (
            ["train", "{model}", "--train", "{train}", "-o", "o", "--set", "layers.lst.p=1"],
            "Did you mean 'lstm'",
        ),
        (
            ["train", "{model}", "--train", "{train}", "-o", "o", "--set", "training.epoch=1"],
            "Did you mean 'epochs'",
        ),
        (
            ["train", "{model}", "--train", "{train}", "-o", "o", "--set", "data.label=labl"],
            "Did you mean 'label'",
        ),
        (
            ["train", "{model}", "--train", "{train}", "-o", "o", "--set", "data.kind=regression"],
            "serves",
        ),
        (
            ["train", "{model}", "--train", "{train}", "-o", "o", "--set", "layers.word.vectors=x"],
            "Give --vectors FILE",
        ),
        (["new", "regression", "--train", "{train}", "-o", "n.json"], "no column of numbers"),
    ],
)
def test_a_mistake_is_one_paragraph_and_leaves_nothing(
    trained: Path,
    place: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    wanted: str,
) -> None:
    names = {name: str(trained / name) for name in ("out",)}
    names |= {"dev": str(trained / "dev.tsv"), "train": str(trained / "train.tsv")}
    names["model"] = str(trained / "model.json")
    before = digest_file(trained / "dev.tsv")
    assert wanted in fail(capsys, *(argument.format(**names) for argument in arguments))
    assert [path.name for path in place.iterdir() if path.name != "cache"] == []
    assert digest_file(trained / "dev.tsv") == before


def test_an_unknown_label_of_dev_is_named_with_its_line(
    trained: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dev = write_tsv(place / "dev.tsv", rows=5, header="text\tlabel")
    dev.write_text(dev.read_text() + "the view\trooms\n", encoding="utf-8")
    arguments = [str(trained / "model.json"), "--train", str(trained / "train.tsv")]
    message = fail(capsys, "train", *arguments, "--dev", "dev.tsv", "-o", "out")
    assert "dev.tsv: line 7: found the label 'rooms'" in message
    assert "Did you mean 'room'" in message


def test_a_file_of_one_label_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "a.tsv").write_text("text\tlabel\n" + "good film\tyes\n" * 9, encoding="utf-8")
    main(["new", "classification", "--train", "a.tsv", "-o", "m.json"])
    assert "NOT SURE" in capsys.readouterr().out
    assert "'yes' alone" in fail(capsys, "train", "m.json", "--train", "a.tsv", "-o", "out")


def test_few_tags_are_warned_of(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sentence = "Rome\tO\tO\nis\tO\tO\nbig\tO\tX\n\n"
    (place / "a.conll").write_text(sentence * 6, encoding="utf-8")
    main(["new", "tagging", "--train", "a.conll", "-o", "m.json"])
    arguments = ["train", "m.json", "--train", "a.conll", *SMALL, "--epochs", "1"]
    main([*arguments, "-o", "out"])
    assert "found no other tags than O and X" in capsys.readouterr().err
    message = fail(capsys, *arguments, "-o", "two", "--set", "data.label=2")
    assert "'O' alone" in message


def test_a_net_of_the_zoo_is_trained_on_a_guess_that_is_told(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_conll(place / "a.conll")
    zoo = Path(__file__).parent.parent / "zoo/sample/ner_bilstm_crf.json"
    quick = ["--epochs", "1", "--set", "layers.word.vectors=null"]
    main(["train", str(zoo), "--train", "a.conll", "-o", "out", *quick])
    assert "data.scheme = BIO" in capsys.readouterr().err
    saved = json.loads((place / "out/model.json").read_text())
    assert saved["data"]["scheme"] == "BIO"
    assert saved["training"]["epochs"] == 1
