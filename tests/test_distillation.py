"""Students of soft labels: what they learn, what is repeated, and what is an error."""

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nlp_core.config.params import Params, read_params
from nlp_core.config.teaching import AlterationConfig
from nlp_core.data.augmentation import alter_split
from nlp_core.data.task import read_task
from nlp_core.errors import ConfigError, DataError
from nlp_core.files import digest_file, write_json
from nlp_core.models.saving import load_model
from nlp_core.report.evaluation import evaluate_table
from nlp_core.training import teaching
from nlp_core.training.cell import read_cell
from nlp_core.training.cell_run import train_cell
from nlp_core.training.loop import Trainer
from nlp_core.training.run import prepare_tasks
from nlp_core.training.teaching import read_teacher, teach
from tests.tiny import make_recipe, write_task
from tests.tiny_group import describe_groups, gather_tasks
from tests.tiny_teaching import (
    ALTERATION,
    DATA,
    GRAPHS,
    JOINT,
    KL,
    SMART,
    ask,
    make_params,
    project,
    read_soft,
)
from tests.tiny_training import KilledError, digests

__all__ = ["project"]


@pytest.mark.parametrize("kind", sorted(GRAPHS))
def test_student_of_every_kind_learns_from_its_teacher(project: Path, kind: str) -> None:
    params = make_params(kind, distillation={"name": "kl", "temperature": 1.0, "weight": 1.0})
    folder = train_cell(ask(params))
    assert folder == Path("artifacts/cells/sample/young")
    history = (folder / "seed-1/history.jsonl").read_text().splitlines()
    losses = [event["loss"] for event in map(json.loads, history) if event["event"] == "train"]
    assert 0 < losses[-1] < losses[0]


@pytest.mark.parametrize(("teacher", "student"), [("tagging", "softmax"), ("softmax", "tagging")])
def test_field_and_softmax_teach_each_other(project: Path, teacher: str, student: str) -> None:
    params = make_params(student, teacher=teacher, distillation={**KL, "name": "kl"}, epochs=1)
    cell = ask(params)
    assert read_soft(cell).marginals is (teacher == "tagging")
    assert (train_cell(cell) / "seed-1/model.safetensors").exists()


def test_no_share_of_the_teacher_is_training_without_it_to_the_bit(project: Path) -> None:
    params = make_params("classification", distillation={**KL, "weight": 0.0})
    young = digest_file(train_cell(ask(params)) / "seed-1/model.safetensors")
    assert young == digest_file(Path("artifacts/cells/sample/old/seed-1/model.safetensors"))
    taught = train_cell(ask(make_params("classification")))
    assert digest_file(taught / "seed-1/model.safetensors") != young


@pytest.mark.parametrize("adversarial", [None, SMART], ids=["plain", "smart"])
def test_killed_student_ends_with_the_bytes_of_an_undisturbed_one(
    project: Path, monkeypatch: pytest.MonkeyPatch, adversarial: dict[str, Any] | None
) -> None:
    params = make_params("classification", adversarial=adversarial, validations_per_epoch=2)
    cell = ask(params)
    whole = digests(train_cell(cell))
    for name in ("artifacts/cells/sample/young", "artifacts/work"):
        (project / name).rename(project / Path(name).name)
    step, steps = Trainer.step, iter(range(100))

    def kill(self: Trainer, name: str, rows: np.ndarray) -> None:
        if next(steps) == 8:
            raise KilledError
        step(self, name, rows)

    monkeypatch.setattr(Trainer, "step", kill)
    with pytest.raises(KilledError):
        train_cell(cell)
    assert not cell.folder.exists()
    assert list((project / "artifacts/work/sample/young").glob("*/seed-1.safetensors"))
    assert digests(train_cell(cell)) == whole
    assert next(steps) < 30


def test_student_before_its_teachers_says_what_to_run(project: Path) -> None:
    params = make_params("classification")
    with pytest.raises(DataError, match=r"task 'one' is not processed yet"):
        train_cell(read_cell("young", params))
    with pytest.raises(
        DataError, match="the cell 'old' is not trained yet; run `dvc repro finetune"
    ):
        read_teacher("one", params)
    with pytest.raises(ConfigError, match=r"unknown task 'on'\. Did you mean 'one'"):
        read_teacher("on", params)


def test_ensemble_of_teachers_has_a_member_for_each_seed(project: Path) -> None:
    teachers = {"one": {"seeds": [1, 2]}, "two": {"seeds": [2]}}
    cell = ask(make_params("classification", teachers=teachers, seeds=(1, 2), epochs=1))
    _, _, (run,) = prepare_tasks(cell)
    assert run.soft_targets is not None
    values = run.soft_targets.columns["label"].values
    assert values.shape == (3, len(run.train.split), 2)
    assert (values[1] == values[2]).all()
    assert (values[0] != values[1]).any()


def test_further_texts_are_learnt_from_their_soft_labels_alone(project: Path) -> None:
    teachers = {"one": {"further": "test"}}
    cell = ask(make_params("classification", teachers=teachers, epochs=1))
    _, _, (run,) = prepare_tasks(cell)
    assert run.soft_targets is not None
    task = read_task(Path("data/processed") / DATA)
    train, test = (task.read_split(name) for name in ("train", "test"))
    assert run.soft_targets.num_labelled == len(train)
    assert len(run.train.split) == len(train) + len(test)
    texts = run.train.split.texts["tokens"]
    assert texts.row(len(train) + 3) == test.texts["tokens"].row(3)
    assert run.soft_targets.columns["label"].values.shape[1] == len(train) + len(test)


def test_altered_texts_are_labelled_by_the_teacher_alone(project: Path) -> None:
    teachers: dict[str, Any] = {"one": {"alteration": ALTERATION}}
    cell = ask(make_params("classification", teachers=teachers, epochs=1))
    _, _, (run,) = prepare_tasks(cell)
    assert run.soft_targets is not None
    train = read_task(Path("data/processed") / DATA).read_split("train")
    more = alter_split(train, AlterationConfig(**ALTERATION))
    assert run.soft_targets.num_labelled == len(train)
    assert len(run.train.split) == len(train) + len(more)
    texts = run.train.split.texts["tokens"]
    assert texts.row(len(train) + 3) == more.texts["tokens"].row(3)
    model, featurizers = load_model(
        Path("artifacts/cells/sample/old/seed-1"),
        cell.plan,
        kinds={None: cell.task.kind},
        init=cell.init,
    )
    said = teaching.score_split(model, featurizers[None].encode(more))["label"]
    np.testing.assert_array_equal(run.soft_targets.columns["label"].values[0, len(train) :], said)
    first = cell.key
    teachers["one"]["alteration"] = {**ALTERATION, "seed": 2}
    again = ask(make_params("classification", teachers=teachers, epochs=1))
    assert again.key != first


@pytest.mark.parametrize("kind", ["ranking", "tagging", "multi_label"])
def test_further_texts_of_every_form_are_learnt(project: Path, kind: str) -> None:
    teachers = {"one": {"further": "dev", "alteration": ALTERATION}}
    cell = ask(make_params(kind, teachers=teachers, epochs=1))
    _, _, (run,) = prepare_tasks(cell)
    assert run.soft_targets is not None
    assert len(run.train.split) > run.soft_targets.num_labelled
    assert (train_cell(cell) / "seed-1/model.safetensors").exists()


def test_one_student_of_a_group_has_a_teacher_for_each_task(project: Path) -> None:
    tasks = ["tiny_classification", "tiny_tagging"]
    taught = ["taught_sentence", "taught_word"]
    for kind in ("classification", "tagging"):
        write_task(project, kind)
    graph = copy.deepcopy(JOINT)
    graph["heads"]["label"]["task"], graph["heads"]["tags"]["task"] = tasks
    write_json(project / "zoo/both.json", {"description": "both", "source": "a test", **graph})
    cell = {"init": "data/processed/tiny_vectors", "table": "sample", "seeds": [1]}
    alone = make_recipe(epochs=1).model_dump(mode="json")
    mixed = {**alone, "mixing": {"name": "proportional"}}
    kl = {**KL, "task_weights": {"tiny_tagging": 0.9}}
    params = Params.model_validate(
        {
            "numerics": 1,
            "tasks": ["tiny_vectors", *tasks],
            "groups": describe_groups({"both": taught}),
            "tables": ["sample"],
            "metrics": {"sample": ["auc"]},
            "recipes": {"alone": alone, "taught": {**mixed, "distillation": kl}},
            "experiments": {
                **{
                    name: {
                        **cell,
                        "model": f"zoo/{kind}.json",
                        "data": f"tiny_{kind}",
                        "recipe": "alone",
                    }
                    for name, kind in (("sentence", "classification"), ("word", "tagging"))
                },
                "young": {**cell, "model": "zoo/both.json", "data": "both", "recipe": "taught"},
            },
            "taught": {
                f"taught_{name}": {
                    "cell": f"artifacts/cells/sample/{name}",
                    "seeds": [1],
                    "data": data,
                }
                for name, data in (("sentence", tasks[0]), ("word", tasks[1]))
            },
        }
    )
    for name in ("sentence", "word"):
        train_cell(read_cell(name, params))
        teach(read_teacher(f"taught_{name}", params))
    gather_tasks("both", taught)
    student = read_cell("young", params)
    _, _, runs = prepare_tasks(student)
    found = {run.task.name: run.soft_targets for run in runs}
    assert {name: item and item.weight for name, item in found.items()} == {
        "tiny_classification": 0.5,
        "tiny_tagging": 0.9,
    }
    train_cell(student)
    write_json(project / "params.yaml", params.model_dump(mode="json", exclude_none=True))
    evaluate_table("sample", project)
    found = json.loads((project / "results/sample.json").read_text())["cells"]
    assert sorted(found) == ["sentence", "word", "young"]
    assert "tiny_classification.test.auc" in found["young"]["metrics"]
    assert "test.auc" in found["sentence"]["metrics"]
    assert "test.auc" not in found["word"]["metrics"]
    path = project / "params.yaml"
    path.write_text(path.read_text().replace('"auc"', '"acu"'))
    with pytest.raises(ConfigError, match=r"metrics: found 'acu', which no kind of task"):
        evaluate_table("sample", project)


@pytest.mark.parametrize(
    ("section", "change", "expected"),
    [
        (
            "taught.one",
            {"cell": "artifacts/cells/sample/od"},
            "unknown cell 'od'. Did you mean",
        ),
        ("taught.one", {"cell": "zoo/old"}, "taught.one.cell: found 'zoo/old'"),
        (
            "taught.one",
            {"seeds": [3]},
            r"taught\.\w+\.seeds: .*'3'",
        ),
        ("taught.one", {"data": "x"}, "taught.one.data: unknown task 'x'"),
        ("taught.one", {"data": "one"}, "taught.one.data: found a cycle"),
        ("taught.one", {"data": "tiny_vectors"}, "unknown task 'tiny_vectors'"),
        ("taught.one", {"sets": [1]}, "taught.one.sets: unknown key. Did you mean 'seeds'?"),
        ("experiments.young", {"recipe": "alone"}, "found no distillation; a recipe has one if"),
        ("experiments.young", {"table": "other"}, "unknown table 'other'"),
        ("experiments.old", {"recipe": "taught"}, "found a distillation; a recipe has one if"),
        ("recipes.taught.distillation", {"temperature": 0.5}, "temperature: found 0.5"),
        ("recipes.taught.distillation", {"weight": 1.5}, "weight: found 1.5"),
        ("recipes.taught.distillation", {"task_weights": {"x": 0.5}}, "unknown task 'x'"),
    ],
)
def test_grid_of_students_is_checked(
    project: Path, section: str, change: dict[str, Any], expected: str
) -> None:
    values: dict[str, Any] = make_params("classification").model_dump(mode="json")
    place = values
    for key in section.split("."):
        place = place[key]
    place.update(change)
    write_json(project / "params.json", values)
    with pytest.raises(ConfigError, match=expected):
        read_params(project / "params.json")
