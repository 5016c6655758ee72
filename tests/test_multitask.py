"""Training of several tasks by one model: shared layers, a head for each, batches in turns."""

import json
import logging
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nlp_core.config.params import ExperimentConfig, Params
from nlp_core.errors import ConfigError, TrainingError
from nlp_core.kinds import Kind
from nlp_core.models.features import Featurizer
from nlp_core.models.saving import load_model
from nlp_core.objectives.smoothness import Smart
from nlp_core.prediction.split_prediction import predict
from nlp_core.report.evaluation import evaluate_cell
from nlp_core.training.cell import Cell, read_cell
from nlp_core.training.cell_run import train_cell
from nlp_core.training.run import prepare_tasks
from tests import tiny_teaching
from tests.tiny import make_recipe, write_task, write_vectors
from tests.tiny_encoder import write_encoder
from tests.tiny_group import describe_groups, gather_tasks
from tests.tiny_training import check_resume, digests, make_trainer

KINDS = ["classification", "tagging", "pair_regression"]
NAMES = [f"tiny_{kind}" for kind in KINDS]
WORDS: dict[str, Any] = {
    "description": "a BiLSTM for three tasks",
    "source": "a test",
    "inputs": {"words": "tokens", "first": "tokens_a", "second": "tokens_b"},
    "layers": [
        {"name": "word", "block": "word_embedding", "inputs": ["words"], "dim": 8},
        {"name": "word_a", "block": "word", "inputs": ["first"]},
        {"name": "word_b", "block": "word", "inputs": ["second"]},
        {"name": "lstm", "block": "bilstm", "inputs": ["word"], "hidden_dim": 4},
        {"name": "lstm_a", "block": "lstm", "inputs": ["word_a"]},
        {"name": "lstm_b", "block": "lstm", "inputs": ["word_b"]},
        {"name": "one", "block": "pooling", "inputs": ["lstm"], "pool": "max"},
        {"name": "one_a", "block": "pooling", "inputs": ["lstm_a"], "pool": "max"},
        {"name": "one_b", "block": "pooling", "inputs": ["lstm_b"], "pool": "max"},
        {"name": "pair", "block": "concat", "inputs": ["one_a", "one_b"]},
    ],
    "heads": {
        "label": {"head": "classification", "inputs": ["one"], "task": "tiny_classification"},
        "tags": {"head": "crf_tagging", "inputs": ["lstm"], "task": "tiny_tagging"},
        "value": {"head": "regression", "inputs": ["pair"], "task": "tiny_pair_regression"},
    },
}
ENCODER: dict[str, Any] = {
    "description": "a pretrained encoder for three tasks",
    "source": "a test",
    "inputs": {"texts": "texts", "words": "tokens.pieces"},
    "layers": [
        {
            "name": "encoder",
            "block": "pretrained_encoder",
            "inputs": ["texts"],
            "dim": 8,
            "max_length": 16,
        },
        {"name": "by_word", "block": "encoder", "inputs": ["words"]},
        {"name": "pooled", "block": "pooling", "inputs": ["encoder"], "pool": "first"},
    ],
    "heads": {
        "label": {"head": "classification", "inputs": ["pooled"], "task": "tiny_classification"},
        "tags": {"head": "tagging", "inputs": ["by_word"], "task": "tiny_tagging"},
    },
}
SLOW = {"weight": 1.0, "early_momentum": 0.99, "momentum": 0.999, "early_share": 0.1}
SMART = {**tiny_teaching.SMART, "proximal": SLOW}
PROPORTIONAL = {"name": "proportional"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with three small tasks, gathered, vectors and an encoder."""
    monkeypatch.chdir(tmp_path)
    write_vectors(tmp_path)
    write_encoder(tmp_path)
    for kind in KINDS:
        write_task(tmp_path, kind)
    gather_tasks("three", NAMES)
    gather_tasks("two", NAMES[:2])
    (tmp_path / "zoo").mkdir()
    for name, graph in (("words", WORDS), ("encoder", ENCODER)):
        (tmp_path / f"zoo/{name}.json").write_text(json.dumps(graph))
    return tmp_path


def make_params(model: str = "words", **recipe: Any) -> Params:
    group = "two" if model == "encoder" else "three"
    init = "tiny_encoder" if model == "encoder" else "tiny_vectors"
    experiment = ExperimentConfig(
        table="sample",
        model=f"zoo/{model}.json",
        data=group,
        init=f"data/processed/{init}",
        recipe="short",
        seeds=[1],
    )
    tasks = [*NAMES, "tiny_vectors", "tiny_encoder"]
    return Params(
        numerics=1,
        tasks=tasks,
        groups=describe_groups({"three": NAMES, "two": NAMES[:2]}),
        tables=["sample"],
        recipes={"short": make_recipe(**{"mixing": PROPORTIONAL, **recipe})},
        experiments={"tiny": experiment},
    )


def make_cell(model: str = "words", **recipe: Any) -> Cell:
    return read_cell("tiny", make_params(model, **recipe))


@pytest.mark.parametrize("model", ["words", "encoder"])
def test_all_tasks_are_learnt_and_measured_by_name(project: Path, model: str) -> None:
    params = make_params(model, epochs=25, optimizer={"name": "adam", "lr": 0.03})
    cell = read_cell("tiny", params)
    train_cell(cell)
    found = evaluate_cell("tiny", params, project).metrics
    assert found["tiny_classification.test.accuracy"].mean > 80
    assert found["tiny_tagging.test.f1"].mean > 90
    if model == "words":
        assert found["tiny_pair_regression.test.pearson"].mean > 90


def test_two_runs_give_the_same_bytes(project: Path) -> None:
    cell = make_cell()
    first = digests(train_cell(cell))
    (project / "artifacts").rename(project / "before")
    assert digests(train_cell(cell)) == first


@pytest.mark.parametrize("killed_at", [1, 11, 23])
@pytest.mark.parametrize("model", ["words", "encoder"])
def test_a_killed_run_ends_as_an_undisturbed_one(project: Path, model: str, killed_at: int) -> None:
    """Several tasks, adversarial training and an average of weights, together."""
    cell = make_cell(
        model, mixing={"name": "uniform"}, validations_per_epoch=3, adversarial=SMART, epochs=2
    )
    check_resume(partial(make_trainer, cell), project, killed_at)


def test_the_parts_share_the_weights_of_the_whole(project: Path) -> None:
    model, featurizers, (label, tags, value) = prepare_tasks(make_cell())
    assert set(label.model.blocks) == {"word", "lstm", "one"}
    assert set(value.model.heads) == {"value"}
    assert label.model.blocks["lstm"] is model.blocks["lstm"] is tags.model.blocks["lstm"]
    counted = featurizers["tiny_tagging"].vocabularies["word"]
    assert counted is featurizers["tiny_pair_regression"].vocabularies["word"]


def test_a_step_moves_the_shared_layers_and_no_other_head(project: Path) -> None:
    trainer = make_trainer(make_cell(ema_decay=None), project / "x")
    before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    (rows, *_) = trainer.order.order_task("tiny_tagging", 1)
    trainer.step("tiny_tagging", rows)
    moved = {
        name.split(".")[1]
        for name, value in trainer.model.state_dict().items()
        if not torch.equal(value, before[name])
    }
    assert moved == {"word", "lstm", "tags"}


def test_weights_of_tasks_scale_their_gradients(project: Path) -> None:
    gradients = []
    for weight in (1.0, 3.0):
        cell = make_cell(task_weights={"tiny_tagging": weight}, clip_norm=None)
        trainer = make_trainer(cell, project / "x")
        (rows, *_) = trainer.order.order_task("tiny_tagging", 1)
        trainer.step("tiny_tagging", rows)
        gradients.append([p.grad for p in trainer.model.heads["tags"].parameters()])
    torch.testing.assert_close([3 * grad for grad in gradients[0]], gradients[1])


def test_learning_rates_of_tasks_scale_their_steps_alone(project: Path) -> None:
    moves: dict[str, list[list[torch.Tensor]]] = {}
    for scale in (1.0, 0.25):
        for name, head in (("tiny_tagging", "tags"), ("tiny_classification", "label")):
            cell = make_cell(task_lr_scales={"tiny_tagging": scale}, ema_decay=None)
            trainer = make_trainer(cell, project / "x")
            weights = list(trainer.model.heads[head].parameters())
            before = [p.detach().clone() for p in weights]
            (rows, *_) = trainer.order.order_task(name, 1)
            trainer.step(name, rows)
            moved = [after - start for after, start in zip(weights, before, strict=True)]
            moves.setdefault(name, []).append([move.detach() for move in moved])
    whole, part = moves["tiny_tagging"]
    torch.testing.assert_close([move / 4 for move in whole], part, rtol=1e-4, atol=1e-7)
    assert all(move.abs().max() > 0 for move in part)
    torch.testing.assert_close(*moves["tiny_classification"])


def test_batch_sizes_of_tasks(project: Path) -> None:
    trainer = make_trainer(make_cell(task_batch_sizes={"tiny_tagging": 4}), project / "x")
    assert trainer.order.count_batches(1) == {
        "tiny_classification": 6,
        "tiny_tagging": 12,
        "tiny_pair_regression": 6,
    }
    rows = {name: len(rows) for name, rows in trainer.order.order_epoch(1)}
    assert rows == {"tiny_classification": 8, "tiny_tagging": 4, "tiny_pair_regression": 8}


def test_the_mixture_is_logged(project: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    progress = make_trainer(make_cell(epochs=2), project / "x").run().progress
    events = [event for event in progress.events if event["event"] == "mixture"]
    assert [event["epoch"] for event in events] == [1, 2]
    assert events[0]["steps"] == dict.fromkeys(sorted(NAMES), 6)
    assert progress.task_steps == dict.fromkeys(NAMES, 12)
    assert "train mixture epoch=2" in caplog.text


def test_a_task_without_a_step_is_an_error_before_the_first_step(project: Path) -> None:
    mixing = {"name": "main_ratio", "main": "tiny_tagging", "ratio": 0.2}
    trainer = make_trainer(make_cell(mixing=mixing, epochs=1), project / "x")
    with pytest.raises(TrainingError, match=r"found no step of training in 7.*mixing"):
        trainer.run()
    assert trainer.progress.step == 0


def test_what_tasks_share_has_one_average_that_moves_at_every_step(project: Path) -> None:
    trainer = make_trainer(make_cell(adversarial=SMART), project / "x")
    first, *others = trainer.objectives.values()
    assert isinstance(first, Smart)
    assert first.average is not None
    shared = [name for name in first.average.weights if "lstm" in name]
    assert shared
    for other in others:
        assert isinstance(other, Smart)
        assert other.average is not None
        assert not set(shared) & set(other.average.weights)
        for name in shared:
            assert other.average.model.get_parameter(name) is first.average.weights[name]
    before = {name: first.average.weights[name].clone() for name in shared}
    trainer.step(NAMES[-1], np.arange(8))
    trainer.step(NAMES[-1], np.arange(8))
    assert not any(first.average.weights[name].equal(before[name]) for name in shared)


def test_the_epoch_is_chosen_by_the_mean_over_tasks(project: Path) -> None:
    progress = make_trainer(make_cell(epochs=4), project / "x").run().progress
    first = {"classification": "accuracy", "tagging": "f1", "pair_regression": "pearson"}
    means: dict[float, list[float]] = {}
    for event in progress.events:
        if event["event"] == "validate":
            metric = first[event["task"].removeprefix("tiny_")]
            means.setdefault(event["epoch"], []).append(event["metrics"][metric])
    scores = {epoch: sum(values) / 3 for epoch, values in means.items()}
    best = progress.best["honest"]
    assert best.score == pytest.approx(max(scores.values()))
    assert scores[best.epoch] == pytest.approx(best.score)


def test_a_trained_model_predicts_by_the_name_of_the_task(project: Path) -> None:
    cell = make_cell()
    folder = train_cell(cell) / "seed-1"
    kinds: dict[str | None, Kind] = {task.name: task.kind for task in cell.tasks}
    model, featurizers = load_model(folder, cell.plan, kinds=kinds, init=cell.init)
    trained, _, runs = prepare_tasks(cell)
    trained.load_state_dict(model.state_dict())
    for item in runs:
        featurizer: Featurizer = featurizers[item.task.name]
        encoded = featurizer.encode(item.task.read_split("test"))
        part = model.select(featurizer.plan)
        found = predict(part, encoded, item.task.targets).prediction
        assert found == predict(item.model, item.splits["test"], item.task.targets).prediction


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ({"mixing": None}, "found a group of tasks and no mixing"),
        ({"task_weights": {"tiny_tag": 1.0}}, "unknown task 'tiny_tag'"),
        ({"task_lr_scales": {"tiny_tag": 1.0}}, "unknown task 'tiny_tag'"),
        ({"mixing": {"name": "main_ratio", "main": "x", "ratio": 1}}, "unknown task 'x'"),
    ],
)
def test_params_that_do_not_mix(project: Path, recipe: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_params(**recipe)


def test_a_task_without_a_head_is_refused(project: Path) -> None:
    graph = {**WORDS, "heads": {k: v for k, v in WORDS["heads"].items() if k != "tags"}}
    (project / "zoo/words.json").write_text(json.dumps(graph))
    with pytest.raises(ConfigError, match=r"found no head for the task 'tiny_tagging'"):
        make_cell()


def test_a_head_without_a_task_beside_others_is_refused(project: Path) -> None:
    heads = {**WORDS["heads"], "label": {"head": "classification", "inputs": ["one"]}}
    (project / "zoo/words.json").write_text(json.dumps({**WORDS, "heads": heads}))
    with pytest.raises(ConfigError, match=r"head 'label': task: found none"):
        make_cell()


def test_a_model_of_one_task_is_refused_for_a_group(project: Path) -> None:
    heads = {"label": {"head": "classification", "inputs": ["one"]}}
    layers = [layer for layer in WORDS["layers"] if layer["name"] in ("word", "lstm", "one")]
    graph = {**WORDS, "inputs": {"words": "tokens"}, "layers": layers, "heads": heads}
    (project / "zoo/words.json").write_text(json.dumps(graph))
    with pytest.raises(ConfigError, match=r"expected a head with `task` for each of tiny_"):
        make_cell()
