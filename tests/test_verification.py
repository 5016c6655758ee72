"""`reglue verify`: a cell that is trained again is identical, and a planted change is named."""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor

from nlp_core.blocks.recurrent import BiLSTM
from nlp_core.cli import main
from nlp_core.cli.stage_run import build_missing
from nlp_core.config.base import read_mapping
from nlp_core.config.dataset import read_dataset
from nlp_core.config.params import Params
from nlp_core.config.reader import READERS, ReadTask, SourceReader
from nlp_core.data.preprocess import preprocess_source
from nlp_core.data.readers.example import Example, Rows
from nlp_core.data.source import Places, fetch_source
from nlp_core.errors import ConfigError, DataError
from nlp_core.files import digest_file, write_json
from nlp_core.heads.sentence import ClassificationHead
from nlp_core.metrics import METRICS
from nlp_core.probe import Probe
from nlp_core.report.cell import Place, TrainedCell
from nlp_core.report.evaluation import evaluate_cell, evaluate_table, list_first
from nlp_core.report.results import Results, read_results
from nlp_core.report.verification import (
    SeedVerdict,
    draw_places,
    list_places,
    verify,
)
from nlp_core.training import determinism
from nlp_core.training.cell import read_cell
from nlp_core.training.cell_run import train_cell
from nlp_core.training.encoder_plan import read_encoder
from nlp_core.training.pretraining import pretrain_encoder
from tests.tiny import make_recipe, write_task
from tests.tiny_corpus import make_params as make_encoder_params
from tests.tiny_corpus import write_project
from tests.tiny_training import make_params, project

__all__ = ["project"]
CELL = "tiny"
PLACE = Place("sample", CELL, 1)


@pytest.fixture
def params(project: Path) -> Params:
    """A project with one cell that is trained and measured."""
    write_task(project, "classification")
    found = make_params("classification", make_recipe(epochs=2))
    measure(found, project)
    return found


def measure(params: Params, root: Path) -> None:
    train_cell(read_cell(CELL, params))
    results = Results(table="sample", cells={CELL: evaluate_cell(CELL, params, root)})
    write_json(root / "results/sample.json", results.model_dump(exclude_defaults=True))


def verify_one(params: Params, root: Path, name: str = "again") -> SeedVerdict:
    (verdict,) = verify([PLACE], params, root, root / name)
    return verdict


def test_a_cell_trained_again_is_identical(params: Params, project: Path) -> None:
    verdict = verify_one(params, project)
    assert verdict == SeedVerdict(PLACE, "identical")
    assert verdict.has_passed
    assert not (project / "again/sample/tiny/seed-1.safetensors").exists()


def test_a_changed_block_is_found_at_the_first_validation(
    params: Params, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward = BiLSTM.forward

    def shift(self: BiLSTM, x: Tensor, mask: Tensor) -> Tensor:
        return forward(self, x, mask) * 1.01

    monkeypatch.setattr(BiLSTM, "forward", shift)
    verdict = verify_one(params, project)
    assert verdict.outcome == "different"
    assert verdict.place.cell == CELL
    first, *others = verdict.details
    assert first.startswith("validation 1 of 2 is the first that differs, in average/")
    assert "the chosen weights differ" in others
    assert not verdict.has_passed


def test_a_changed_metric_is_found_though_the_weights_are_the_same(
    params: Params, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for metrics in METRICS.values():
        if "accuracy" in metrics:
            metric = metrics["accuracy"]
            changed = metric._replace(
                compute=lambda found, metric=metric: metric.compute(found) - 0.01
            )
            monkeypatch.setitem(metrics, "accuracy", changed)
    verdict = verify_one(params, project)
    assert verdict.outcome == "different"
    assert verdict.details == []
    assert {item.metric for item in verdict.moved} == {"dev.accuracy", "test.accuracy"}
    assert [round(item.found - item.committed, 4) for item in verdict.moved] == [-1.0, -1.0]


def test_changed_data_are_named_before_the_weights(params: Params, project: Path) -> None:
    folder = project / "data/processed/tiny_classification"
    path = folder / "train.parquet"
    table = pq.read_table(path)
    labels = table["label"].to_pylist()
    labels[0] = {"0": "1", "1": "0"}[labels[0]]
    idx = table.column_names.index("label")
    pq.write_table(table.set_column(idx, "label", pa.array(labels)), path)
    manifest = read_mapping(folder / "manifest.json")
    manifest["splits"]["train"]["sha256"] = digest_file(path)
    write_json(folder / "manifest.json", manifest)
    verdict = verify_one(params, project)
    assert verdict.outcome == "different"
    assert verdict.details[0].startswith("the data of tiny_classification are not the committed")


def test_a_changed_reader_is_found_in_the_data(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "sample_sentence"
    dataset = read_dataset(source, Path(__file__).parent.parent / "sources")
    fetch_source(source, dataset, Places())
    preprocess_source(source, dataset)
    params = make_params("classification", make_recipe(epochs=1), seeds=(1,))
    cell = params.experiments[CELL].model_copy(update={"data": source})
    params = params.model_copy(update={"experiments": {CELL: cell}})
    measure(params, project)
    assert verify_one(params, project, "unchanged").outcome == "identical"

    tsv = READERS.get("tsv")
    read = tsv.read

    def lengthen(reader: SourceReader, task: ReadTask, split: str, path: Path) -> Rows:
        first, *rest = read(reader, task, split, path)
        assert isinstance(first, Example)
        return [first._replace(text_a=f"{first.text_a} ."), *rest]

    monkeypatch.setattr(tsv, "read", lengthen)
    preprocess_source(source, dataset)
    verdict = verify_one(params, project)
    assert verdict.outcome == "different"
    assert verdict.place.cell == CELL
    assert verdict.details[0].startswith(f"the data of {source} are not the committed")


def test_another_machine_is_compared_by_the_spread_of_the_seeds(
    params: Params, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(determinism, "run_probe", lambda: Probe({}, "1" * 16))
    verdict = verify_one(params, project)
    assert verdict.outcome == "consistent"
    assert "prediction interval of the 2 committed seeds" in verdict.details[1]

    def give_up(self: ClassificationHead, x: Tensor, mask: object = None) -> Tensor:
        return torch.zeros(len(x), 2) * x.sum()

    monkeypatch.setattr(ClassificationHead, "forward", give_up)
    results = project / "results/sample.json"
    note = read_mapping(results)
    score = {"mean": 95.05, "sd": 0.070711, "n": 2, "values": [95.0, 95.1]}
    note["cells"][CELL]["metrics"]["test.accuracy"] = score
    write_json(results, note)
    verdict = verify_one(params, project, "third")
    assert verdict.outcome == "inconsistent"
    assert not verdict.has_passed

    note["cells"][CELL]["metrics"]["test.accuracy"] = score | {
        "mean": 95.0,
        "n": 1,
        "sd": 0.0,
        "values": [95.0],
    }
    write_json(results, note)
    verdict = verify_one(params, project, "third")
    assert verdict.outcome == "no verdict"
    assert "one seed has no spread" in verdict.details[1]
    assert not verdict.has_passed


def test_another_machine_names_changed_data_and_a_metric_that_was_not_measured(
    params: Params, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(determinism, "run_probe", lambda: Probe({}, "1" * 16))
    results = project / "results/sample.json"
    note = read_mapping(results)
    (task,) = note["cells"][CELL]["data"]
    note["cells"][CELL]["data"][task] = "sha256:" + "0" * 64
    write_json(results, note)
    verdict = verify_one(params, project)
    assert verdict.details[1].startswith(f"the data of {task} are not the committed ones")
    del note["cells"][CELL]["metrics"]["test.accuracy"]
    write_json(results, note)
    with pytest.raises(DataError, match=r"tiny: found no test\.accuracy, .*measure the cell again"):
        verify_one(params, project)


def test_another_machine_is_judged_by_every_task_and_reported_split() -> None:
    facts = {"kind": "classification", "labels": [], "scheme": None, "footnotes": []}
    one = facts | {"metrics": ["f1", "accuracy"], "select_split": "dev", "report_split": "test"}
    two = facts | {"metrics": ["matthews"], "select_split": "held_out", "report_split": "dev"}
    two |= {"further_report_splits": ["dev_mismatched"]}
    cell = TrainedCell.model_validate(
        {
            **{"table": "t", "cell": "c", "model": "m", "recipe": "r", "seeds": [], "data": {}},
            **{"init": None, "parameters": {}, "fingerprint": {}, "numerics": 1, "runs": {}},
            "tasks": {"b": one, "a": two},
        }
    )
    assert list_first(cell) == ["a.dev.matthews", "a.dev_mismatched.matthews", "b.test.f1"]
    single = cell.model_copy(update={"tasks": {"b": cell.tasks["b"]}})
    assert list_first(single) == ["test.f1"]


def test_what_cannot_be_verified_says_why(params: Params, project: Path) -> None:
    root = project
    with pytest.raises(ConfigError, match=r"unknown table 'samples'\. Did you mean 'sample'"):
        list_places(params, root, table="samples", cells=[], seeds=[])
    with pytest.raises(ConfigError, match="unknown cell 'tyni'"):
        list_places(params, root, table="sample", cells=["tyni"], seeds=[])
    with pytest.raises(ConfigError, match="no measured cell with the seeds asked for"):
        list_places(params, root, table="sample", cells=[], seeds=[9])
    with pytest.raises(ConfigError, match="no measured cell with the seeds asked for"):
        list_places(params, root, table="sample", cells=[CELL], seeds=[2, 9])
    newer = params.model_copy(update={"numerics": 2})
    with pytest.raises(DataError, match="numerics: found 1, but the grid says 2"):
        list(verify([PLACE], newer, root, root / "again"))
    later = PLACE._replace(seed=9)
    with pytest.raises(DataError, match="no digests of seed 9"):
        next(verify([PLACE, later], params, root, root / "again"))


def test_places_are_all_seeds_or_a_repeatable_draw(params: Params, project: Path) -> None:
    found = list_places(params, project, table="sample", cells=[], seeds=[])
    assert found == [PLACE, Place("sample", CELL, 2)]
    assert list_places(params, project, table="sample", cells=[CELL], seeds=[2]) == found[1:]
    drawn = draw_places(params, project, count=5, seed=3)
    assert drawn == draw_places(params, project, count=5, seed=3)
    assert [place.cell for place in drawn] == [CELL]
    newer = params.model_copy(update={"numerics": 2})
    with pytest.raises(ConfigError, match="found no cell to draw"):
        draw_places(newer, project, count=5, seed=3)
    path = project / "results/sample.json"
    path.write_text(path.read_text().replace('"device": "cpu"', '"device": "NVIDIA X"'))
    with pytest.raises(ConfigError, match="that a CPU trained"):
        draw_places(params, project, count=5, seed=3)


def test_an_encoder_trained_again_is_identical(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_project(tmp_path)
    params = make_encoder_params(tmp_path, tiny={"validate_every": 6})
    pretrain_encoder(read_encoder("tiny", params))
    evaluate_table("pretrain", tmp_path)
    place = Place("pretrain", "tiny", params.encoders["tiny"].seeds[0])
    assert list_places(params, tmp_path, table="pretrain", cells=[], seeds=[]) == [place]
    (verdict,) = verify([place], params, tmp_path, tmp_path / "again")
    assert verdict == SeedVerdict(place, "identical")
    committed = read_results("pretrain", tmp_path).cells["tiny"]
    assert len(committed.runs[str(place.seed)].validations) >= 2


def test_two_commands_build_missing_data_in_turn(
    params: Params, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, released, missing, built = Event(), Event(), ["gather@tiny_one"], []

    def build(argv: list[str]) -> subprocess.CompletedProcess[bytes]:
        started.set()
        assert released.wait(10)
        built.append(argv[-1])
        missing.clear()
        return subprocess.CompletedProcess(argv, 0)

    monkeypatch.setattr(subprocess, "run", build)
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(build_missing, missing.copy, params, project) for _ in range(2)]
        assert started.wait(10)
        released.set()
        for run in runs:
            run.result()
    assert built == ["gather@tiny_one"]


def test_mistakes_are_named_before_any_training(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "file").touch()
    with pytest.raises(SystemExit) as caught:
        main(["verify", "sample", "--work", "file"])
    assert caught.value.code == 2
    assert "--work file: found a file, expected a folder" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["verify", "sample", "--draw-seed", "2"])
    assert "--draw-seed is the seed of --draw" in capsys.readouterr().err
    neither = "verify: found no table and no --draw, expected one of them; name a table of grid/"
    both = "verify: found both the table 'sample' and --draw, expected one of them; leave out one"
    for options, message in {(): neither, ("sample", "--draw", "2"): both}.items():
        with pytest.raises(SystemExit):
            main(["verify", *options])
        assert message in capsys.readouterr().err
