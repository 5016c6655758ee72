"""Prediction with a trained cell of the grid: by its task, its seed, from any form of file."""

import csv
import json
import re
import shutil
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

import pytest
import torch

from nlp_core.cli import main
from nlp_core.config.dataset import read_registry
from nlp_core.config.user_data import describe_files
from nlp_core.kinds import list_user_kinds
from nlp_core.prediction.predictor import Predictor
from nlp_core.prediction.trained_model import TrainedModel
from tests.tiny_glue import ROOT, WORDS, train_group, write_group, write_trained

CELLS = "artifacts/cells/trial"
LATER, EARLIER = "not_entailment", "entailment"
"""What seed 1 says of words from w6 on, and of those before."""
AS_NUMBERS = ["--set", "data.kind=regression", "--set", 'data.texts=["text"]']
Read = Callable[[Path], list[dict[str, str]]]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a cell for each task of GLUE, and one of several tasks."""
    root = tmp_path_factory.mktemp("trained")
    with chdir(root):
        write_trained(root)
        train_group(write_group(root))
    return root


@pytest.fixture(autouse=True)
def project(trained: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The trained project as the working folder of a test that changes nothing."""
    monkeypatch.chdir(trained)
    return trained


def read_table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file, delimiter="," if path.suffix == ".csv" else "\t"))


def read_lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        ("in.tsv", "id\ttext_a\ttext_b\n1\tw7 w6\tx\n2\tw1\ty\n", read_table),
        ("in.csv", 'id,text_a,text_b\n1,"w7 w6","x, y"\n2,w1,y\n', read_table),
        (
            "in.jsonl",
            '{"id": "1", "text_a": "w7 w6", "text_b": "x"}\n'
            '{"id": "2", "text_a": "w1", "text_b": ""}\n',
            read_lines,
        ),
    ],
)
def test_a_file_is_predicted_by_the_name_of_its_task(
    tmp_path: Path, name: str, text: str, read: Read
) -> None:
    (tmp_path / name).write_text(text)
    said = tmp_path / f"out-{name}"
    files = ["--data", str(tmp_path / name), "-o", str(said)]
    main(["predict", f"{CELLS}/both_tiny", "--task", "rte", *files, "--confidence-of", EARLIER])
    first, second = read(said)
    assert (first["id"], first["prediction"]) == ("1", LATER)
    assert (second["id"], second["prediction"]) == ("2", EARLIER)
    assert float(second[f"confidence_of_{EARLIER}"]) == float(second["confidence"]) > 0.9


def test_the_tasks_of_a_cell_share_its_weights_and_differ_in_what_they_say() -> None:
    pairs = Predictor(TrainedModel.open(f"{CELLS}/both_tiny", task="rte"))
    texts = Predictor(TrainedModel.open(f"{CELLS}/both_tiny", task="cola"))
    assert pairs.labels == [EARLIER, LATER]
    alone = Predictor(TrainedModel.open(Path(f"{CELLS}/cola_tiny")))
    for word, one, single in zip(WORDS, texts.predict(WORDS), alone.predict(WORDS), strict=True):
        assert one.prediction == single.prediction == texts.labels[word >= "w6"]
        (pair,) = pairs.predict([(word, "x")])
        assert pair.prediction == pairs.labels[word >= "w6"]


@pytest.mark.parametrize("folder", ["rte_tiny --seed 2", "rte_tiny/seed-2"])
def test_another_seed_says_the_contrary(tmp_path: Path, folder: str) -> None:
    (tmp_path / "in.tsv").write_text("text_a\ttext_b\nw7\tx\nw1\tx\n")
    name, *seed = folder.split(" ")
    files = ["--data", str(tmp_path / "in.tsv"), "-o", str(tmp_path / "out.tsv")]
    main(["predict", f"{CELLS}/{name}", *seed, *files])
    assert [row["prediction"] for row in read_table(tmp_path / "out.tsv")] == [EARLIER, LATER]


def test_values_are_numbers_and_columns_may_have_other_names(tmp_path: Path) -> None:
    (tmp_path / "in.tsv").write_text("one\ttwo\nw4\tx\nw6\tx\n")
    files = ["--data", str(tmp_path / "in.tsv"), "-o", str(tmp_path / "out.tsv")]
    main(["predict", f"{CELLS}/stsb_tiny", *files, "--set", 'data.texts=["one", "two"]'])
    assert [float(row["prediction"]) for row in read_table(tmp_path / "out.tsv")] == [2.0, 4.0]


def test_a_file_with_labels_is_measured_by_the_metrics_of_the_task(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [("w7", LATER), ("w6", LATER), ("w1", EARLIER), ("w0", LATER)]
    lines = [f"{word}\tx\t{label}" for word, label in rows]
    (tmp_path / "in.tsv").write_text("\n".join(["text_a\ttext_b\tlabel", *lines]) + "\n")
    test = ["test", f"{CELLS}/both_tiny", "--task", "rte", "--data", str(tmp_path / "in.tsv")]
    main([*test, "--json"])
    assert json.loads(capsys.readouterr().out) == {"accuracy": 75.0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["both_tiny"], "a model of several tasks; name one with --task: cola, rte"),
        (["both_tiny", "--task", "rta"], "'both_tiny': found no task 'rta'. Did you mean 'rte'"),
        (["both_tiny", "--task", "tiny_corpus"], "a corpus for masked language modelling"),
        (["rte_tiny", "--plugin", "x.py"], "--plugin: .* is a trained cell; leave it out"),
        (["rte_tiny", "--seed", "9"], r"found the seeds \[1, 2\], expected 9 among them"),
        (["rte_tiny/seed-2", "--seed", "2"], "rte_tiny/seed-2' is the folder of one seed"),
        (["rte_tiny/seed-x"], "found no trained model"),
        (["rte_tin"], "expected a folder that `reglue train` made, or that of a trained cell"),
        (
            ["rte_tiny", "--set", "data.kind=regression", "--set", 'data.texts=["a"]'],
            "another kind",
        ),
        (
            ["rte_tiny", "--set", "data.format=tvs"],
            "--set: data: format: found 'tvs'. Did you mean",
        ),
        (
            ["rte_tiny", "--set", "data.label=text"],
            "no column 'text_a'. Did you mean 'text'.*--set data",
        ),
    ],
)
def test_mistakes_are_one_paragraph_and_write_nothing(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.tsv").write_text("text\tother\nw1\tx\n")
    folder, *more = options
    files = ["--data", str(tmp_path / "in.tsv"), "-o", str(tmp_path / "out.tsv")]
    with pytest.raises(SystemExit) as caught:
        main(["predict", f"{CELLS}/{folder}", *more, *files])
    assert caught.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(message, line), line
    assert [path.name for path in tmp_path.iterdir()] == ["in.tsv"]


def test_every_task_of_datasets_has_a_form() -> None:
    found = {}
    for name, dataset in read_registry(ROOT / "sources").items():
        if dataset.task is not None and dataset.task.kind.user_file.formats:
            found[name] = describe_files(dataset.task, "tsv")
    assert {item.kind.name for item in found.values()} == set(list_user_kinds())
    assert found["squad"].format == "squad"
    assert (found["rte"].texts, found["rte"].label) == (["text_a", "text_b"], "label")
    assert found["atis"].tag_column == "tags"
    assert describe_files(read_registry(ROOT / "sources")["conll2003"].task, "conll").texts == ["1"]


def test_a_model_of_ones_own_goes_on_from_a_cell(project: Path, tmp_path: Path) -> None:
    (tmp_path / "later.tsv").write_text("text\tlabel\n" + "w7\t1\nw1\t0\n" * 10)
    model = json.loads((project / "zoo/sst2.json").read_text())
    (tmp_path / "m.json").write_text(json.dumps(model))
    files = ["--train", str(tmp_path / "later.tsv"), "-o", str(tmp_path / "new")]
    call = ["train", str(tmp_path / "m.json"), *files, "--lr", "1e-9", "--epochs", "1", "--force"]
    for seed, said in ((1, ["0", "1"]), (2, ["1", "0"])):
        main([*call, "--init", f"{CELLS}/sst2_tiny/seed-{seed}"])
        found = Predictor(TrainedModel.open(tmp_path / "new")).predict(["w5", "w6"])
        assert [item.prediction for item in found] == said


def test_a_cell_is_opened_by_its_own_folder_alone(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(project / CELLS / "rte_tiny", tmp_path / "rte_tiny")
    shutil.copytree(project / "zoo", tmp_path / "zoo")
    monkeypatch.chdir(tmp_path)
    one, other = (TrainedModel.open("rte_tiny", seed=seed) for seed in (1, 2))
    assert (one.name, one.task.name, one.task.report_split) == ("rte_tiny", "rte", "dev")
    assert one.featurizer.targets == other.featurizer.targets == {"label": [EARLIER, LATER]}
    first, second = (item.model.state_dict() for item in (one, other))
    assert any(not torch.equal(first[name], second[name]) for name in first)
