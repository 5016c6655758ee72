"""`reglue new`, `train`, `test` and `predict` on the user's files, as a user would run them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nlp_core.cli import main
from nlp_core.data.readers.records import FileRecord, read_named
from nlp_core.files import digest_file
from nlp_core.prediction.file_prediction import ROWS_A_CHUNK, _write_parquet
from nlp_core.prediction.predictor import Predictor
from nlp_core.prediction.trained_model import TrainedModel
from nlp_core.training import loop
from tests.user_commands import learn, trained
from tests.user_files import (
    QUICK,
    SMALL,
    make_texts,
    read_rows,
    write_conll,
    write_labels,
    write_pairs,
    write_rows,
    write_slots,
    write_tsv,
)

__all__ = ["trained"]
pytestmark = pytest.mark.usefixtures("place")


def test_five_labels_are_learnt_and_predicted_with_no_edit(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tsv(place / "a.tsv", rows=120)
    write_tsv(place / "b.tsv", rows=30, seed=1)
    main(["new", "classification", "--train", "a.tsv", "--dev", "b.tsv", "-o", "m.json"])
    shown = capsys.readouterr().out
    assert "5 labels: food, place, price, room, staff" in shown
    assert "reglue train m.json --train a.tsv --dev b.tsv" in shown
    main(["train", "m.json", "--train", "a.tsv", "--dev", "b.tsv", "-o", "out", *QUICK])
    found = json.loads((place / "out/metrics.json").read_text())
    assert found["metrics"]["dev"]["accuracy"] > 90
    assert not (place / "out.work").exists()
    main(["predict", "out", "--data", "b.tsv", "-o", "p.tsv", "--confidence-of", "food"])
    rows = [line.split("\t") for line in (place / "p.tsv").read_text().splitlines()]
    assert [row[:2] for row in rows] == [list(pair) for pair in make_texts(30, seed=1)]
    assert sum(row[1] == row[2] for row in rows) / 30 * 100 == pytest.approx(
        found["metrics"]["dev"]["accuracy"], abs=1e-4
    )
    assert all(0.2 <= float(row[3]) <= 1 and 0 <= float(row[4]) <= 1 for row in rows)


def test_pairs_of_a_jsonl_file_keep_their_keys(place: Path) -> None:
    learn("matching", write_pairs(place / "a.jsonl", rows=40), *SMALL, "--epochs", "1")
    section = json.loads((place / "m.json").read_text())["data"]
    assert (section["texts"], section["label"]) == (["premise", "hypothesis"], "gold")
    rows = read_rows(place / "p.jsonl")
    keys = ["id", "premise", "hypothesis", "gold", "prediction", "confidence"]
    assert [list(row) for row in rows] == [keys] * 40
    assert {row["prediction"] for row in rows} <= {"same", "other"}


@pytest.mark.parametrize(
    ("template", "suffix"), [("regression", "csv"), ("similarity", "parquet"), ("ranking", "csv")]
)
def test_numbers_and_ranks_are_learnt_from_tables(place: Path, template: str, suffix: str) -> None:
    rows: list[dict[str, Any]] = []
    for idx, (text, label) in enumerate(make_texts(40, seed=0)):
        score = idx % 2 if template == "ranking" else float(label in ("food", "room"))
        pair = {"question": f"the soup {idx // 4}"} if template != "regression" else {}
        rows.append({**pair, "answer": f"{text}, it is", "score": score})
    path = write_rows(place / f"a.{suffix}", rows)
    learn(template, path, *SMALL, "--epochs", "1")
    before, after = read_rows(path), read_rows(place / f"p.{suffix}")
    new = ["prediction"] if template != "ranking" else ["prediction", "confidence"]
    assert list(after[0]) == [*before[0], *new]
    assert [dict(list(row.items())[: -len(new)]) for row in after] == before
    answers = [row["prediction"] for row in after]
    if template == "ranking":
        assert set(answers) <= {"0", "1"}
        return
    texts = list(rows[3].values())[:-1]
    (alone,) = Predictor(TrainedModel.open("out")).predict([texts[0] if len(texts) == 1 else texts])
    assert alone.prediction == pytest.approx(float(answers[3]), abs=1e-5)
    assert alone.confidence is None


@pytest.mark.parametrize("suffix", ["tsv", "jsonl"])
def test_several_labels_are_learnt(place: Path, suffix: str) -> None:
    path = write_labels(place / f"a.{suffix}", rows=150)
    metrics = learn("multi_label", path, *QUICK, "--epochs", "12" if suffix == "tsv" else "1")
    rows = read_rows(place / f"p.{suffix}")
    if suffix == "jsonl":
        assert all(isinstance(row["prediction"], list) for row in rows)
        return
    assert metrics["micro_f1"] > 80
    assert sum(row["labels"] == row["prediction"] for row in rows) / len(rows) > 0.8
    assert {row["prediction"].count("|") for row in rows if row["prediction"]} == {0, 1}
    assert any(not row["prediction"] for row in rows)


def test_a_label_and_tags_are_learnt_together(place: Path) -> None:
    metrics = learn("intent_slots", write_slots(place / "a.tsv"), *QUICK)
    assert metrics["frame_accuracy"] > 90
    section = json.loads((place / "m.json").read_text())["data"]
    assert (section["texts"], section["label"], section["tags"]) == (["1"], "3", "2")
    line = (place / "p.tsv").read_text().splitlines()[1].split("\t")
    assert line[:3] == ["cheap bed in Rome", "O B-thing O B-city", "find hotel"]
    assert line[3:5] == ["find hotel", "O B-thing O B-city"]
    (said,) = Predictor(TrainedModel.open("out")).predict(["fly to Oslo"])
    assert (said.prediction, said.tags) == ("book flight", ["O", "O", "B-city"])


@pytest.mark.parametrize("scheme", ["BIO", "IOB1", "BIOES", "BILOU", "plain"])
def test_an_unknown_tagging_scheme_is_found_and_learnt(place: Path, scheme: str) -> None:
    path = write_conll(place / "a.conll", scheme)
    metrics = learn("tagging", path, *QUICK)
    section = json.loads((place / "m.json").read_text())["data"]
    assert (section["scheme"], section["texts"], section["label"]) == (scheme, ["1"], "3")
    assert metrics["accuracy" if scheme == "plain" else "f1"] > 90, metrics
    before, after = (place / name for name in ("a.conll", "p.conll"))
    pairs = zip(before.read_text().splitlines(), after.read_text().splitlines(), strict=True)
    for old, new in pairs:
        assert new.startswith(old)
        is_token = bool(old) and not old.startswith("-DOCSTART-")
        assert len(new.split()) - len(old.split()) == (2 if is_token else 0)


def test_confusions_are_counted_on_request(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test = ["test", str(trained / "out"), "--data", str(trained / "dev.tsv"), "--confusion"]
    main([*test, "--json"])
    found = json.loads(capsys.readouterr().out)
    counts = found["confusion"]["counts"]
    assert len(found["confusion"]["labels"]) == len(counts) == 5
    assert sum(map(sum, counts)) == 30
    right = sum(row[idx] for idx, row in enumerate(counts))
    assert found["accuracy"] == pytest.approx(100 * right / 30)
    main(test)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("| all | ")
    assert lines[-1].endswith(" | 30 |")


def test_every_metric_is_shown_whole_however_narrow_the_terminal(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    metrics = ["accuracy", "expected_calibration_error", "macro_auc", "macro_precision"]
    options = ["--data", str(trained / "dev.tsv"), "--set", f"data.metrics={json.dumps(metrics)}"]
    main(["test", str(trained / "out"), *options])
    shown = capsys.readouterr().out.split()
    assert set(metrics) <= set(shown)


def test_test_measures_what_train_measured(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["test", str(trained / "out"), "--data", str(trained / "dev.tsv"), "--json"])
    found = json.loads(capsys.readouterr().out)
    wanted = json.loads((trained / "out/metrics.json").read_text())["metrics"]["dev"]
    assert found == pytest.approx(wanted, abs=1e-5)


def test_without_dev_a_part_is_held_out_and_said_so(
    trained: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(trained / "train.tsv", "train.tsv")
    arguments = ["train", str(trained / "model.json"), "--train", "train.tsv", *SMALL]
    main([*arguments, "--epochs", "1", "-o", "out"])
    assert "20 of 100 rows are held out" in capsys.readouterr().err
    main([*arguments, "--epochs", "1", "-o", "again"])
    names = ["model.safetensors", "metrics.json", "history.jsonl", "vocabulary.json", "run.json"]
    for name in names:
        assert digest_file(place / "out" / name) == digest_file(place / "again" / name)
    main([*arguments, "--epochs", "1", "-o", "third", "--seed", "2"])
    weights = [digest_file(place / folder / names[0]) for folder in ("out", "third")]
    assert weights[0] != weights[1]


def test_a_killed_run_goes_on_and_ends_with_the_same_weights(
    trained: Path,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["train", str(trained / "model.json"), "--train", str(trained / "train.tsv")]
    arguments += [*SMALL, "--epochs", "3"]
    main([*arguments, "-o", "whole"])
    update, steps, last = loop.update_weights, [], 30

    def count(optimizer: Any) -> None:
        steps.append(1)
        if len(steps) == last:
            raise KeyboardInterrupt
        update(optimizer)

    monkeypatch.setattr(loop, "update_weights", count)
    with pytest.raises(SystemExit) as caught:
        main([*arguments, "-o", "killed"])
    assert caught.value.code == 130
    assert not (place / "killed").exists()
    assert list((place / "killed.work").glob("*.safetensors"))
    steps.clear()
    last = 10**9
    shutil.copytree("killed.work", "other.work")
    main([*arguments, "-o", "killed"])
    assert "go on from the checkpoint" in capsys.readouterr().err
    assert 0 < len(steps) < 3 * 12
    weights = [digest_file(place / folder / "model.safetensors") for folder in ("whole", "killed")]
    assert weights[0] == weights[1]
    assert not (place / "killed.work").exists()
    main([*arguments, "-o", "other", "--seed", "9", "--set", "training.max_steps=5"])
    assert "start afresh" in capsys.readouterr().err
    lines = (place / "other/history.jsonl").read_text().splitlines()
    assert max(json.loads(line)["step"] for line in lines) == 5


def test_set_changes_lists_items_and_what_was_not_there(trained: Path, place: Path) -> None:
    changes = ["heads.label.hidden_dims=[4]", "heads.label.dropout=0.0", 'data.texts=["label"]']
    changes += ["data.texts.0=text", "data.max_words=7", "layers.0.lowercase=false", "notes.0=1"]
    options = [part for change in changes for part in ("--set", change)]
    arguments = ["train", str(trained / "model.json"), "--train", str(trained / "train.tsv")]
    main([*arguments, "-o", "out", *SMALL, "--epochs", "1", *options])
    saved = json.loads((place / "out/model.json").read_text())
    assert saved["heads"]["label"]["hidden_dims"] == [4]
    assert saved["data"]["texts"] == ["text"]
    assert (saved["notes"][0], saved["data"]["max_words"]) == ("1", 7)
    assert saved["layers"][0]["lowercase"] is False
    vocabulary = json.loads((place / "out/vocabulary.json").read_text())
    assert len(vocabulary["layers"]["word"]["words"]) == 7 + 2


def test_labels_that_come_late_have_a_column_for_them(tmp_path: Path) -> None:
    source, size = tmp_path / "a.parquet", ROWS_A_CHUNK + 1
    pq.write_table(pa.table({"text": ["a"] * size}), source)
    rows = [(FileRecord({"text": "a"}, [1]), {"prediction": [], "confidence": []})] * ROWS_A_CHUNK
    rows += [(FileRecord({"text": "a"}, [1]), {"prediction": ["x"], "confidence": [0.5]})]
    assert _write_parquet(iter(rows), source, tmp_path / "p.parquet") == size
    found = pq.read_table(tmp_path / "p.parquet").to_pylist()
    assert found[0] == {"text": "a", "prediction": [], "confidence": []}
    assert found[-1] == {"text": "a", "prediction": ["x"], "confidence": [0.5]}


def test_times_keep_their_nanoseconds_in_parquet(tmp_path: Path) -> None:
    source, times = tmp_path / "a.parquet", [3_600_000_000_123, 1, 2]
    columns = {"text": ["a", "b", "c"], "time": pa.array(times, pa.time64("ns"))}
    pq.write_table(pa.table(columns), source)
    read = dict(enumerate(read_named(source, "parquet")))
    rows = [(read[idx], {"prediction": "x"}) for idx in (0, 2)]
    assert _write_parquet(iter(rows), source, tmp_path / "p.parquet") == 2
    found = pq.read_table(tmp_path / "p.parquet")
    assert found.column_names == ["text", "time", "prediction"]
    assert found["time"].cast(pa.int64()).to_pylist() == [times[0], times[2]]


@pytest.mark.parametrize(
    ("model", "kind"),
    [("sample/ner_bilstm_crf", "tagging"), ("slu/atis_joint_bilstm", "intent_slots")],
)
def test_a_net_of_the_zoo_is_trained_on_a_guess_that_is_told(
    place: Path, capsys: pytest.CaptureFixture[str], model: str, kind: str
) -> None:
    path = write_conll(place / "a.conll") if kind == "tagging" else write_slots(place / "a.tsv")
    zoo = Path(__file__).parent.parent / f"zoo/{model}.json"
    names = [layer["name"] for layer in json.loads(zoo.read_text())["layers"]]
    quick = [
        part
        for name in names
        if name.startswith("word")
        for part in ("--set", f"layers.{name}.vectors=null")
    ]
    main(["train", str(zoo), "--train", path.name, "-o", "out", "--epochs", "1", *quick])
    assert 'data.scheme = "BIO"' in capsys.readouterr().err
    saved = json.loads((place / "out/model.json").read_text())
    assert (saved["data"]["kind"], saved["training"]["epochs"]) == (kind, 1)
