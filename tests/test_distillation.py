"""Teachers, their soft labels and students: what is stored, what is refused, what is learnt."""

import copy
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from nlp_core.config.distillation import AlterationConfig
from nlp_core.config.params import Params, read_params
from nlp_core.data.alteration import alter_split
from nlp_core.data.gather import gather_tasks
from nlp_core.data.soft_labels import refuse_other_teachers
from nlp_core.errors import ConfigError, DataError
from nlp_core.files import digest_file, write_json
from nlp_core.models.saving import load_model
from nlp_core.report.evaluation import evaluate_table
from nlp_core.training import teaching
from nlp_core.training.cell import read_cell, train_cell
from nlp_core.training.loop import Trainer
from nlp_core.training.run import prepare_tasks
from nlp_core.training.teaching import read_teacher, teach
from tests.test_training import MODELS, KilledError, digests, layer, model
from tests.tiny import make_recipe, write_task, write_vectors
from tests.tiny_teaching import KL, ask, make_grid

NOTE = "manifest.json"
SMART = {
    "name": "smart",
    "weight": 1.0,
    "steps": 1,
    "step_size": 0.01,
    "noise_std": 0.01,
    "epsilon": 0.02,
    "norm": "inf",
    "level": "token",
    "divergence": "symmetric_kl",
    "proximal": {"weight": 1.0, "early_momentum": 0.9, "momentum": 0.99, "early_share": 0.1},
}
ALTERATION = {"copies": 2, "mask_prob": 0.2, "replace_prob": 0.2, "cut_prob": 0.2, "seed": 1}
JOINT = model(
    {"words": "tokens"},
    [
        layer("word", "word_embedding", "words", dim=8, vectors="8d"),
        layer("lstm", "bilstm", "word", hidden_dim=6),
        layer("top", "pooling", "lstm", pool="max"),
    ],
    "classification",
)
JOINT["heads"] = {
    "label": {"head": "classification", "inputs": ["top"]},
    "tags": {"head": "tagging", "inputs": ["lstm"]},
}
SOFTMAX = {**MODELS["tagging"], "heads": {"out": {"head": "tagging", "inputs": ["lstm"]}}}
PAIRWISE = {**MODELS["ranking"], "heads": {"out": {"head": "pairwise_ranking", "inputs": ["pair"]}}}
GRAPHS = {**MODELS, "intent_slots": JOINT, "softmax": SOFTMAX, "pairwise": PAIRWISE}
KINDS = {"softmax": "tagging", "pairwise": "ranking"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with word vectors and no task; the working folder of the test."""
    monkeypatch.chdir(tmp_path)
    write_vectors(tmp_path)
    (tmp_path / "zoo").mkdir()
    for name, graph in GRAPHS.items():
        write_json(
            tmp_path / f"zoo/{name}.json", {"description": name, "source": "a test", **graph}
        )
    return tmp_path


def make_params(
    kind: str,
    *,
    teacher: str | None = None,
    distillation: dict[str, Any] | None = None,
    teachers: dict[str, dict[str, Any]] | None = None,
    seeds: tuple[int, ...] = (1,),
    **recipe: object,
) -> Params:
    """Return a grid of a teacher and a student of one kind of task, which is made where missing.

    Args:
        kind: the student's model, and where it is one the kind.
        teacher: the teacher's model; None: the student's.
        distillation: of the student's recipe.
        teachers: changes to entries of the one teacher's, by name.
        seeds: that the teacher is trained with.
        recipe: changes to both recipes.
    """
    data = f"tiny_{KINDS.get(kind, kind)}"
    if not Path("data/processed", data).exists():
        write_task(Path(), KINDS.get(kind, kind))
    alone = make_recipe(**recipe).model_dump(mode="json")
    return make_grid(
        data,
        "tiny_vectors",
        models=(teacher or kind, kind),
        recipes={"alone": alone, "taught": {**alone, "distillation": distillation or KL}},
        teachers=teachers,
        seeds=seeds,
    )


@pytest.mark.parametrize("kind", sorted(GRAPHS))
def test_student_of_every_kind_learns_from_its_teacher(project: Path, kind: str) -> None:
    params = make_params(kind, distillation={"name": "kl", "temperature": 1.0, "weight": 1.0})
    folder = train_cell(ask(params))
    assert folder == Path("artifacts/distill/sample/young")
    history = (folder / "seed-1/history.jsonl").read_text().splitlines()
    losses = [event["loss"] for event in map(json.loads, history) if event["event"] == "train"]
    assert 0 < losses[-1] < losses[0]


@pytest.mark.parametrize(("teacher", "student"), [("tagging", "softmax"), ("softmax", "tagging")])
def test_field_and_softmax_teach_each_other(project: Path, teacher: str, student: str) -> None:
    params = make_params(student, teacher=teacher, distillation={**KL, "name": "kl"}, epochs=1)
    cell = ask(params)
    assert cell.soft_labels[0].marginals is (teacher == "tagging")
    assert (train_cell(cell) / "seed-1/model.safetensors").exists()


def test_soft_labels_are_what_the_teacher_predicts(project: Path) -> None:
    teachers = {"one": {"split": "train"}, "two": {"split": "dev", "seeds": [2]}}
    params = make_params("classification", teachers=teachers, seeds=(1, 2), epochs=1)
    first, second = ask(params).soft_labels
    assert (first.seeds, first.split, second.seeds, second.split) == ([1], "train", [2], "dev")
    rows = pq.read_table(second.folder / "seed-2.parquet").to_pylist()
    logits = np.array([row["label"] for row in rows])
    soft = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    path = "artifacts/finetune/sample/old/seed-2/predictions/tiny_classification.parquet"
    own = [row for row in pq.read_table(path).to_pylist() if row["split"] == "dev"]
    assert [row["id"] for row in rows] == [row["id"] for row in own]
    np.testing.assert_allclose(soft, [row["score"] for row in own], rtol=1e-5)


def test_no_share_of_the_teacher_is_training_without_it_to_the_bit(project: Path) -> None:
    params = make_params("classification", distillation={**KL, "weight": 0.0})
    young = digest_file(train_cell(ask(params)) / "seed-1/model.safetensors")
    assert young == digest_file(Path("artifacts/finetune/sample/old/seed-1/model.safetensors"))
    taught = train_cell(ask(make_params("classification")))
    assert digest_file(taught / "seed-1/model.safetensors") != young


@pytest.mark.parametrize("adversarial", [None, SMART], ids=["plain", "smart"])
def test_killed_student_ends_with_the_bytes_of_an_undisturbed_one(
    project: Path, monkeypatch: pytest.MonkeyPatch, adversarial: dict[str, Any] | None
) -> None:
    params = make_params("classification", adversarial=adversarial, validations_per_epoch=2)
    cell = ask(params)
    whole = digests(train_cell(cell))
    for name in ("distill", "work"):
        (project / "artifacts" / name).rename(project / name)
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


def test_killed_teacher_keeps_its_finished_seeds_and_writes_the_same_bytes(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    teachers = {"one": {"seeds": [1, 2]}}
    params = make_params("classification", teachers=teachers, seeds=(1, 2), epochs=1)
    train_cell(read_cell("old", params))
    teacher = read_teacher("one", params)
    whole = digests(teach(teacher))
    for name in ("artifacts/soft_labels", "artifacts/work/soft_labels"):
        (project / name).rename(project / name.replace("/", "-"))
    asked: list[int] = []
    score = teaching.score_split

    def kill(*arguments: Any) -> dict[str, list[np.ndarray]]:
        asked.append(len(asked))
        if len(asked) == 2:
            raise KilledError
        return score(*arguments)

    monkeypatch.setattr(teaching, "score_split", kill)
    with pytest.raises(KilledError):
        teach(teacher)
    assert not teacher.folder.exists()
    assert digests(teach(teacher)) == whole
    assert len(asked) == 3


def test_teacher_that_was_trained_anew_is_asked_anew(project: Path) -> None:
    before = ask(make_params("classification", epochs=1))
    key, said = before.key, before.soft_labels[0].files
    again = make_params("classification", epochs=2)
    train_cell(read_cell("old", again))
    with pytest.raises(
        DataError, match=r"of another teacher than .*/old, seed 1, is now; run `dvc"
    ):
        train_cell(read_cell("young", again))
    teach(read_teacher("one", again))
    after = read_cell("young", again)
    assert after.soft_labels[0].files != said
    same_recipe = replace(after, recipe=before.recipe)
    assert same_recipe.key != key
    assert len(list((project / "artifacts/work/soft_labels/tiny/one").glob("*.parquet"))) == 1


def test_soft_labels_of_other_texts_are_refused(project: Path) -> None:
    cell = ask(make_params("classification", epochs=1))
    path = cell.soft_labels[0].folder / NOTE
    note = json.loads(path.read_text())
    write_json(path, {**note, "split_sha256": "0" * 64})
    with pytest.raises(
        DataError, match=r"of other examples than .*tiny_classification, split train"
    ):
        train_cell(cell)
    write_json(path, {**note, "targets": {"label": ["no", "yes"]}})
    with pytest.raises(DataError, match="or take a teacher of the same labels"):
        train_cell(cell)
    write_json(path, note)
    (path.parent / "seed-1.parquet").write_bytes(b"")
    with pytest.raises(DataError, match=r"seed-1\.parquet: found no file, or another one than"):
        train_cell(cell)
    assert not Path("artifacts/distill").exists()


def test_student_before_its_teachers_says_what_to_run(project: Path) -> None:
    params = make_params("classification")
    with pytest.raises(
        DataError, match=r"soft_labels/tiny: found no soft labels; run `dvc repro teach"
    ):
        train_cell(read_cell("young", params))
    with pytest.raises(
        DataError, match="the teacher 'old' is not trained yet; run `dvc repro finetune"
    ):
        read_teacher("one", params)
    with pytest.raises(ConfigError, match=r"unknown teacher 'on'\. Did you mean 'one'"):
        read_teacher("on", params)


def test_ensemble_of_teachers_has_a_member_for_each_seed(project: Path) -> None:
    teachers = {"one": {"seeds": [1, 2]}, "two": {"seeds": [2]}}
    cell = ask(make_params("classification", teachers=teachers, seeds=(1, 2), epochs=1))
    _, _, (run,) = prepare_tasks(cell)
    assert run.lesson is not None
    values = run.lesson.soft["label"].values
    assert values.shape == (3, len(run.train.split), 2)
    assert (values[1] == values[2]).all()
    assert (values[0] != values[1]).any()


def test_further_texts_are_learnt_from_their_soft_labels_alone(project: Path) -> None:
    teachers = {"one": {}, "two": {"split": "test"}}
    cell = ask(make_params("classification", teachers=teachers, epochs=1))
    _, _, (run,) = prepare_tasks(cell)
    assert run.lesson is not None
    train, test = (cell.task.read_split(name) for name in ("train", "test"))
    assert run.lesson.num_labelled == len(train)
    assert len(run.train.split) == len(train) + len(test)
    texts = run.train.split.texts["tokens"]
    assert texts.row(len(train) + 3) == test.texts["tokens"].row(3)
    assert run.lesson.soft["label"].values.shape[1] == len(train) + len(test)
    first = digest_file(train_cell(cell) / "seed-1/model.safetensors")
    (alone,) = [part.folder for part in cell.soft_labels if part.split == "test"]
    shutil.rmtree(alone)
    assert digest_file(train_cell(cell) / "seed-1/model.safetensors") != first


def test_altered_texts_are_labelled_by_the_teacher_alone(project: Path) -> None:
    teachers: dict[str, Any] = {"one": {}, "two": {"alteration": ALTERATION}}
    cell = ask(make_params("classification", teachers=teachers, epochs=1))
    _, _, (run,) = prepare_tasks(cell)
    assert run.lesson is not None
    train = cell.task.read_split("train")
    more = alter_split(train, AlterationConfig(**ALTERATION))
    assert run.lesson.num_labelled == len(train)
    assert len(run.train.split) == len(train) + len(more)
    texts = run.train.split.texts["tokens"]
    assert texts.row(len(train) + 3) == more.texts["tokens"].row(3)
    model, featurizers = load_model(
        Path("artifacts/finetune/sample/old/seed-1"),
        cell.plan,
        kinds={None: cell.task.kind},
        init=cell.init,
    )
    said = teaching.score_split(model, featurizers[None].encode(more))["label"]
    np.testing.assert_array_equal(run.lesson.soft["label"].values[0, len(train) :], said)
    first, folder = cell.key, Path("artifacts/soft_labels/tiny/two")
    found = digests(folder)
    teachers["two"]["alteration"] = {**ALTERATION, "seed": 2}
    again = ask(make_params("classification", teachers=teachers, epochs=1))
    assert again.key != first
    assert digests(folder) != found


def test_further_texts_of_another_task_need_the_same_columns(project: Path) -> None:
    teachers = {"one": {"data": "tiny_pair_regression", "task": "tiny_classification"}}
    write_task(project, "pair_regression")
    values = make_params("classification").model_dump(mode="json")
    values["tasks"].append("tiny_pair_regression")
    values["sources"].append("tiny_pair_regression")
    values["teachers"]["one"] |= teachers["one"]
    params = Params.model_validate(values)
    train_cell(read_cell("old", params))
    with pytest.raises(DataError, match="has no column 'tokens', expected texts that 'old' can"):
        teach(read_teacher("one", params))


def test_one_student_of_a_group_has_a_teacher_for_each_task(project: Path) -> None:
    tasks = ["tiny_classification", "tiny_tagging"]
    for kind in ("classification", "tagging"):
        write_task(project, kind)
    gather_tasks("both", tasks)
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
            "sources": ["tiny_vectors", *tasks],
            "tasks": ["tiny_vectors", *tasks],
            "groups": {"both": tasks},
            "tables": ["other"],
            "distilled_tables": {"sample": {"metrics": ["auc"]}},
            "recipes": {"alone": alone, "taught": {**mixed, "distillation": kl}},
            "experiments": {
                name: {
                    **cell,
                    "model": f"zoo/{kind}.json",
                    "data": f"tiny_{kind}",
                    "recipe": "alone",
                }
                for name, kind in (("sentence", "classification"), ("word", "tagging"))
            },
            "teachers": {
                name: {
                    "cell": f"artifacts/finetune/sample/{name}",
                    "seeds": [1],
                    "data": data,
                    "set": "both",
                }
                for name, data in (("sentence", tasks[0]), ("word", tasks[1]))
            },
            "distillations": {
                "young": {
                    **cell,
                    "model": "zoo/both.json",
                    "data": "both",
                    "recipe": "taught",
                    "soft_labels": "artifacts/soft_labels/both",
                }
            },
        }
    )
    for name in ("sentence", "word"):
        train_cell(read_cell(name, params))
        teach(read_teacher(name, params))
    student = read_cell("young", params)
    _, _, runs = prepare_tasks(student)
    lessons = {run.task.name: run.lesson for run in runs}
    assert {name: lesson and lesson.weight for name, lesson in lessons.items()} == {
        "tiny_classification": 0.5,
        "tiny_tagging": 0.9,
    }
    train_cell(student)
    write_json(project / "params.yaml", params.model_dump(mode="json", exclude_none=True))
    evaluate_table("sample", project)
    found = json.loads((project / "results/sample.json").read_text())["cells"]
    assert sorted(found) == ["sentence", "word", "young"]
    assert found["young"]["folder"] == "artifacts/distill/sample/young"
    assert "tiny_classification.test.auc" in found["young"]["metrics"]
    assert "test.auc" in found["sentence"]["metrics"]
    assert "test.auc" not in found["word"]["metrics"]
    path = project / "params.yaml"
    path.write_text(path.read_text().replace('"auc"', '"acu"'))
    with pytest.raises(ConfigError, match=r"sample\.metrics: found 'acu', which no kind of task"):
        evaluate_table("sample", project)


@pytest.mark.parametrize(
    ("section", "change", "expected"),
    [
        (
            "teachers.one",
            {"cell": "artifacts/finetune/sample/od"},
            "unknown cell 'od'. Did you mean",
        ),
        ("teachers.one", {"cell": "zoo/old"}, "teachers.one.cell: found 'zoo/old'"),
        (
            "teachers.one",
            {"seeds": [3]},
            r"found 3, which cell 'old' is not trained with, .*\[1\]",
        ),
        ("teachers.one", {"task": "x"}, "teachers.one.task: unknown task 'x'"),
        ("teachers.one", {"sets": "x"}, "teachers.one.sets: unknown key. Did you mean 'set'?"),
        ("distillations.young", {"soft_labels": "artifacts/soft_labels/tin"}, "unknown set 'tin'"),
        ("distillations.young", {"recipe": "alone"}, "found no distillation; the recipe of a stud"),
        ("distillations.young", {"table": "other"}, "unknown table 'other'"),
        ("experiments.old", {"recipe": "taught"}, "found a distillation; the recipe of a student"),
        ("experiments.old", {"table": "other"}, "unknown cell 'old'"),
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


def test_soft_labels_of_a_teacher_that_is_gone_are_refused(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / "both" / name).mkdir(parents=True)
        (tmp_path / "both" / name / "manifest.json").touch()
    refuse_other_teachers(tmp_path / "both", {"one", "other", "later"})
    with pytest.raises(DataError, match=r"both/other: found soft labels of a teacher that params"):
        refuse_other_teachers(tmp_path / "both", {"one"})
