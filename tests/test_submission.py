"""The zip for GLUE's site: which files, which answers, in which order, and what is refused."""

import json
import re
import shutil
import zipfile
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from nlp_core.cli import main
from nlp_core.config.dataset import read_dataset
from nlp_core.config.params import read_params
from nlp_core.errors import ConfigError, DataError, UsageError
from nlp_core.prediction.trained_model import TrainedModel
from nlp_core.report.submission import SHEETS, format_answer, write_submission
from nlp_core.training.cell import read_cell
from tests.tiny_glue import ROOT, ROWS, TASKS, train_group, write_group, write_trained

NAMES = [
    "CoLA.tsv",
    "SST-2.tsv",
    "MRPC.tsv",
    "STS-B.tsv",
    "QQP.tsv",
    "MNLI-m.tsv",
    "MNLI-mm.tsv",
    "QNLI.tsv",
    "RTE.tsv",
    "WNLI.tsv",
    "AX.tsv",
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a cell for each task of GLUE, each of two seeds."""
    root = tmp_path_factory.mktemp("trained")
    with chdir(root):
        write_trained(root)
    return root


@pytest.fixture
def project(trained: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The trained project as the working folder of a test that changes nothing."""
    monkeypatch.chdir(trained)
    return trained


def write(path: Path, cells: list[str], *, seed: int | None = None, fill: bool = False) -> Path:
    write_submission(path, cells, read_params(Path("params.yaml")), seed=seed, fill=fill)
    return path


def read(path: Path) -> dict[str, list[str]]:
    """Return the predictions of each file after a look at header and row numbers."""
    pages = {}
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            header, *rows = archive.read(name).decode().splitlines()
            assert header == "index\tprediction"
            assert [row.split("\t")[0] for row in rows] == [str(idx) for idx in range(ROWS)]
            pages[name] = [row.split("\t")[1] for row in rows]
    return pages


ALL = [f"{task}_tiny" for task in TASKS]


@pytest.mark.usefixtures("project")
def test_all_files_hold_the_labels_of_the_site_in_the_official_order(tmp_path: Path) -> None:
    pages = read(write(tmp_path / "all.zip", ALL))
    assert list(pages) == NAMES
    # The test rows are the words 7, 6, 5 and 4; from word 6 on seed 1 says the last label.
    for name in ("CoLA.tsv", "SST-2.tsv", "MRPC.tsv", "QQP.tsv", "WNLI.tsv"):
        assert pages[name] == ["1", "1", "0", "0"]
    for name in ("RTE.tsv", "QNLI.tsv"):
        assert pages[name] == [*["not_entailment"] * 2, *["entailment"] * 2]
    for name in ("MNLI-m.tsv", "MNLI-mm.tsv", "AX.tsv"):
        assert pages[name] == [*["neutral"] * 2, *["contradiction"] * 2]
    assert pages["STS-B.tsv"] == ["5.000", "4.000", "3.000", "2.000"]


@pytest.mark.usefixtures("project")
def test_another_seed_answers_for_itself(tmp_path: Path) -> None:
    pages = read(write(tmp_path / "all.zip", ALL, seed=2))
    assert pages["RTE.tsv"] == [*["entailment"] * 2, *["not_entailment"] * 2]
    assert pages["STS-B.tsv"] == ["4.000", "3.000", "2.000", "1.000"]


@pytest.mark.usefixtures("project")
def test_the_bytes_are_the_same_twice_and_hold_no_time(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a.zip", ALL), write(tmp_path / "b.zip", ALL[::-1])
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


@pytest.mark.parametrize(
    ("value", "expected"),
    [(-0.1, "0.000"), (-0.0, "0.000"), (2.34567, "2.346"), (5.2, "5.000")],
)
def test_similarities_stay_within_the_range(value: float, expected: str) -> None:
    assert format_answer(value, ()) == expected


def test_a_label_that_the_site_does_not_know_is_refused() -> None:
    with pytest.raises(DataError, match="found the prediction 'yes', but the site takes 0 or 1"):
        format_answer("yes", ("0", "1"))


def test_the_files_have_the_labels_and_splits_of_the_tasks() -> None:
    for sheet in SHEETS:
        task = read_dataset(sheet.task, ROOT / "sources").task
        assert task is not None
        assert list(sheet.answers) == task.labels
        assert sheet.split in task.splits


@pytest.mark.usefixtures("project")
def test_tasks_without_a_cell_are_filled_on_demand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    path = tmp_path / "part.zip"
    main(["submit", "rte_tiny", "--fill", "majority", "-o", str(path)])
    pages = read(path)
    assert pages["RTE.tsv"] == [*["not_entailment"] * 2, *["entailment"] * 2]
    assert pages["SST-2.tsv"] == ["1"] * ROWS
    assert pages["AX.tsv"] == pages["MNLI-m.tsv"] == ["neutral"] * ROWS
    assert pages["STS-B.tsv"] == ["2.500"] * ROWS
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "RTE.tsv rte_tiny, seed 1 4" in lines
    assert "AX.tsv no cell: neutral, the most frequent label of mnli 4" in lines
    assert lines[-1].endswith("part.zip: 11 files")


def test_a_task_that_is_not_processed_is_filled_with_its_first_label(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = shutil.copytree(trained, tmp_path / "copy")
    shutil.rmtree(root / "data/processed/qnli")
    monkeypatch.chdir(root)
    params = read_params(Path("params.yaml"))
    written = write_submission(Path("a.zip"), ["rte_tiny"], params, seed=None, fill=True)
    assert read(Path("a.zip"))["QNLI.tsv"] == ["entailment"] * ROWS
    (origin,) = [item.origin for item in written if item.file == "QNLI.tsv"]
    assert origin == "no cell: entailment, the first label, since qnli is not processed"


@pytest.mark.parametrize(
    ("cells", "options", "message"),
    [
        (ALL[:-1], [], r"takes all 11 files or none\. No cell was named for wnli \(WNLI\.tsv\)\."),
        (["rte_tiny"], [], r"mnli \(MNLI-m\.tsv, MNLI-mm\.tsv, AX\.tsv\); qnli"),
        (["rte_tinny"], [], "unknown cell 'rte_tinny'. Did you mean 'rte_tiny'"),
        (["news_tiny"], [], "'news_tiny': found a cell of the task news, expected one of cola,"),
        (["rte_tiny", "rte_other"], [], "a second cell of the task rte in addition to 'rte_tiny'"),
        (ALL, ["--seed", "3"], r"--seed: found 3, but the cell 'cola_tiny' has the seeds \[1, 2\]"),
        (["rte_other"], ["--fill", "majority"], "rte_other' is not trained yet"),
        (ALL, ["--fill", "zero"], "invalid choice: 'zero'"),
    ],
)
@pytest.mark.usefixtures("project")
def test_mistakes_are_one_paragraph_and_write_nothing(
    cells: list[str],
    options: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["submit", *cells, *options, "-o", str(tmp_path / "a.zip")])
    assert caught.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(message, line), line
    assert list(tmp_path.iterdir()) == []


def test_a_cell_of_several_tasks_predicts_them_by_name(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = shutil.copytree(trained, tmp_path / "copy")
    monkeypatch.chdir(root)
    params = write_group(root)
    train_group(params)
    others = [name for name in ALL if name not in ("cola_tiny", "rte_tiny")]
    expected = read(write(Path("all.zip"), ALL))
    options: dict[str, Any] = {"seed": None, "fill": False}
    written = write_submission(Path("a.zip"), ["both_tiny", *others], params, **options)
    assert read(Path("a.zip")) == expected
    assert {item.file for item in written if item.origin == "both_tiny, seed 1"} == {
        "CoLA.tsv",
        "RTE.tsv",
    }
    written = write_submission(
        Path("b.zip"), ["both_tiny", "cola_tiny", *others], params, tasks=["rte"], **options
    )
    assert read(Path("b.zip")) == expected
    assert [item.origin for item in written if item.file == "CoLA.tsv"] == ["cola_tiny, seed 1"]
    for tasks, message in (
        ([], "a second cell of the task cola in addition to 'both_tiny'.*with --task"),
        (["rta"], "no cell that was named has the task 'rta' among others. Did you mean 'rte'"),
        (["tiny_corpus"], "'tiny_corpus', a corpus, which has no predictions"),
    ):
        with pytest.raises(ConfigError, match=message):
            write_submission(Path("c.zip"), ["both_tiny", *ALL], params, tasks=tasks, **options)
    with pytest.raises(ConfigError, match="a corpus for masked language modelling"):
        TrainedModel.open(read_cell("both_tiny", params).folder, task="tiny_corpus")
    with pytest.raises(ConfigError, match=r"found no task 'cole'\. Did you mean 'cola'"):
        TrainedModel.open(read_cell("both_tiny", params).folder, task="cole")
    assert not Path("c.zip").exists()


@pytest.mark.parametrize(
    ("gone", "message"),
    [
        ("rte/test.parquet", r"rte: found no split 'test', whose rows RTE\.tsv answers"),
        ("mnli/test_mismatched.parquet", r"'test_mismatched', whose rows MNLI-mm\.tsv answers"),
        ("ax/manifest.json", "task 'ax' is not processed yet"),
    ],
)
def test_a_missing_test_set_is_named_before_anything_is_predicted(
    gone: str, message: str, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = shutil.copytree(trained, tmp_path / "copy")
    (root / "data/processed" / gone).unlink()
    monkeypatch.chdir(root)
    with pytest.raises(DataError, match=message):
        write(Path("a.zip"), ALL)
    assert not Path("a.zip").exists()


@pytest.mark.usefixtures("project")
def test_a_place_for_no_zip_is_named_before_anything_is_predicted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    for path, message in [
        (tmp_path, "names a folder"),
        (tmp_path / "file/a.zip", "is a file, not a folder"),
    ]:
        with pytest.raises(SystemExit) as caught:
            main(["submit", *ALL, "-o", str(path)])
        assert caught.value.code == 2
        assert message in capsys.readouterr().err


@pytest.mark.usefixtures("project")
def test_json_names_the_files_without_their_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["submit", *ALL, "-o", str(tmp_path / "a.zip"), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert [item["file"] for item in found] == [sheet.file for sheet in SHEETS]
    assert found[0] == {"file": "CoLA.tsv", "origin": "cola_tiny, seed 1", "rows": ROWS}


def test_a_multi_task_cell_that_predicts_none_of_the_tasks_is_an_error() -> None:
    params = read_params(ROOT / "params.yaml")
    cells, message = ["mtl_minilm", "glue_small_student"], "none of the tasks of 'glue_small_stu"
    with pytest.raises(UsageError, match=message):
        write_submission(Path("a.zip"), cells, params, tasks=["stsb"], seed=None, fill=True)


def test_no_cell_at_all_is_said_so(project: Path) -> None:
    params = read_params(project / "params.yaml")
    with pytest.raises(ConfigError, match="found cells of no task"):
        write_submission(Path("a.zip"), [], params, seed=None, fill=False)
