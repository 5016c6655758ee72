"""Teachers and their soft labels: what is stored, what is repeated, and what is an error."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from nlp_core.config.params import Params
from nlp_core.data.task import read_task
from nlp_core.errors import DataError
from nlp_core.files import digest_file, write_json
from nlp_core.models.graph import GraphModel
from nlp_core.training import teaching
from nlp_core.training.cell import read_cell
from nlp_core.training.cell_run import train_cell
from nlp_core.training.processes import start_processes
from nlp_core.training.run import prepare_tasks
from nlp_core.training.teaching import read_teacher, teach
from tests.tiny_teaching import ALTERATION, DATA, ask, make_params, project, read_soft
from tests.tiny_training import KilledError, digests

__all__ = ["project"]


def test_soft_labels_are_what_the_teacher_predicts(project: Path) -> None:
    teachers = {"one": {"seeds": [2], "further": "dev"}}
    params = make_params("classification", teachers=teachers, seeds=(1, 2), epochs=1)
    cell = ask(params)
    soft = read_soft(cell)
    ((_, seed, _),) = soft.teachers
    assert seed == 2
    rows = pq.read_table(cell.task.folder / "train.parquet").to_pylist()[soft.num_labelled :]
    assert {row["label"] for row in rows} == {None}
    logits = np.array([row["soft.0.label"] for row in rows])
    said = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    path = "artifacts/cells/sample/old/seed-2/predictions/tiny_classification.parquet"
    own = [row for row in pq.read_table(path).to_pylist() if row["split"] == "dev"]
    assert [row["id"] for row in rows] == [row["id"] for row in own]
    np.testing.assert_allclose(said, [row["score"] for row in own], rtol=1e-5)


def test_a_taught_task_is_the_task_with_soft_labels(project: Path) -> None:
    cell = ask(make_params("classification", epochs=1))
    plain, taught = (read_task(Path("data/processed", name)) for name in (DATA, "one"))
    assert replace(taught, folder=plain.folder, digest=plain.digest) == plain
    assert taught.digest != plain.digest
    for name in ("dev", "test"):
        files = [task.folder / f"{name}.parquet" for task in (plain, taught)]
        assert digest_file(files[0]) == digest_file(files[1])
    assert cell.task.read_split("train").target == plain.read_split("train").target


def test_killed_teacher_keeps_its_finished_seeds_and_writes_the_same_bytes(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    teachers = {"one": {"seeds": [1, 2]}}
    params = make_params("classification", teachers=teachers, seeds=(1, 2), epochs=1)
    train_cell(read_cell("old", params))
    teacher = read_teacher("one", params)
    whole = digests(teach(teacher))
    for name in ("data/processed/one", "artifacts/work/taught"):
        (project / name).rename(project / name.replace("/", "-"))
    asked: list[int] = []
    score = teaching.score_split

    def kill(*arguments: Any, **options: Any) -> dict[str, list[np.ndarray]]:
        asked.append(len(asked))
        if len(asked) == 2:
            raise KilledError
        return score(*arguments, **options)

    monkeypatch.setattr(teaching, "score_split", kill)
    with pytest.raises(KilledError):
        teach(teacher)
    assert not teacher.folder.exists()
    assert digests(teach(teacher)) == whole
    assert len(asked) == 3


def test_a_teacher_predicts_on_the_device_of_the_run(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = make_params("classification", epochs=1)
    train_cell(read_cell("old", params))
    moved: list[torch.device] = []
    monkeypatch.setattr(GraphModel, "to", lambda model, device: moved.append(device))
    teach_one(params)
    assert moved == [torch.device("cpu")]


def teach_one(params: Params) -> None:
    teach(read_teacher("one", params))


@pytest.mark.parametrize("kind", ["classification", "tagging"])
def test_several_processes_teach_with_the_bytes_of_one(project: Path, kind: str) -> None:
    params = make_params(kind, teachers={"one": {"alteration": ALTERATION}}, epochs=1)
    train_cell(read_cell("old", params))
    teach_one(params)
    alone = digests(project / "data/processed/one")
    shutil.rmtree(project / "data/processed/one")
    shutil.rmtree(project / "artifacts/work/taught")
    with start_processes(3, teach_one, params):
        teach_one(params)
    assert digests(project / "data/processed/one") == alone


def test_a_teacher_may_predict_in_16_bits(project: Path) -> None:
    teachers = {"one": {}, "two": {"precision": "bfloat16"}}
    cell = ask(make_params("classification", teachers=teachers, epochs=1))
    _, _, (run,) = prepare_tasks(cell)
    assert run.soft_targets is not None
    exact, rounded = run.soft_targets.columns["label"].values
    assert (exact != rounded).any()
    np.testing.assert_allclose(rounded, exact, atol=0.02)


def test_teacher_that_was_trained_anew_is_asked_anew(project: Path) -> None:
    before = ask(make_params("classification", epochs=1))
    key, said = before.key, read_soft(before)
    after = ask(make_params("classification", epochs=2))
    assert read_soft(after) != said
    same_recipe = replace(after, recipe=before.recipe)
    assert same_recipe.key != key
    assert len(list((project / "artifacts/work/taught/one").glob("*.parquet"))) == 1


def test_labels_that_the_teacher_was_not_trained_on_are_refused(project: Path) -> None:
    params = make_params("classification", epochs=1)
    train_cell(read_cell("old", params))
    kept = project / "data/processed" / DATA
    shutil.copytree(kept, project / "data/processed/other")
    path = project / "data/processed/other/manifest.json"
    write_json(path, json.loads(path.read_text()) | {"labels": ["no", "perhaps", "yes"]})
    teacher = params.taught["one"].model_copy(update={"data": "other"})
    with pytest.raises(DataError, match=r"other: found the labels .*'perhaps'"):
        read_teacher("one", params.model_copy(update={"taught": {"one": teacher}}))


def test_further_texts_come_with_the_first_teacher(project: Path) -> None:
    teachers = {"one": {}, "two": {"alteration": ALTERATION}}
    with pytest.raises(DataError, match=r"taught\.two\.data: found 'one', which other cells"):
        ask(make_params("classification", teachers=teachers, epochs=1))
