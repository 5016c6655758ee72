"""A corpus together with other tasks: its masked pieces train the encoder that they share."""

import copy
import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from torch.nn import functional

from nlp_core.config.params import ExperimentConfig, Params
from nlp_core.data.masked_text import RULE
from nlp_core.errors import ConfigError, DataError
from nlp_core.heads.language_model import MaskedLanguageModelHead
from nlp_core.metrics import Predictions, measure
from nlp_core.models.batch import IGNORED
from nlp_core.models.masked_split import MaskedSplit, encode_split
from nlp_core.models.saving import HEADS, save_tensors
from nlp_core.report.evaluation import evaluate_cell
from nlp_core.training.cell import Cell, read_cell
from nlp_core.training.cell_run import train_cell
from nlp_core.training.loop import Trainer
from nlp_core.training.run import prepare_tasks
from tests.test_multitask import SMART
from tests.tiny import make_recipe, write_task
from tests.tiny_corpus import write_corpus
from tests.tiny_encoder import PIECES, write_encoder
from tests.tiny_group import describe_groups, gather_tasks
from tests.tiny_training import check_resume

TASK, CORPUS = "tiny_classification", "tiny_corpus"
MASK = PIECES.index("[MASK]")
MODEL: dict[str, Any] = {
    "description": "a label and masked pieces",
    "source": "a test",
    "inputs": {"texts": "texts"},
    "layers": [
        {"name": "encoder", "block": "pretrained_encoder", "inputs": ["texts"], "dim": 8, "max_length": 12},  # noqa: E501
        {"name": "pooled", "block": "pooling", "inputs": ["encoder"], "pool": "first"},
    ],
    "heads": {
        "label": {"head": "classification", "inputs": ["pooled"], "task": TASK},
        "piece": {"head": "masked_language_model", "inputs": ["encoder"], "task": CORPUS, "share": 0.3},  # noqa: E501
    },
}  # fmt: skip
DOCUMENTS = [
    {"id": number, "title": "t", "paragraphs": [" ".join(["good film nice the bad"] * (3 + number % 3))]}  # noqa: E501
    for number in range(30)
]  # fmt: skip


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a gathered group of a task and a corpus, and an encoder."""
    monkeypatch.chdir(tmp_path)
    write_encoder(tmp_path)
    write_task(tmp_path, "classification")
    write_corpus(tmp_path, DOCUMENTS)
    gather_tasks("both", [TASK, CORPUS])
    (tmp_path / "zoo").mkdir()
    (tmp_path / "zoo/both.json").write_text(json.dumps(MODEL))
    return tmp_path


def make_params(**recipe: Any) -> Params:
    experiment = ExperimentConfig(
        table="sample",
        model="zoo/both.json",
        data="both",
        init="data/processed/tiny_encoder",
        recipe="short",
        seeds=[1],
    )
    tasks = [TASK, CORPUS, "tiny_encoder"]
    return Params(
        numerics=1,
        tasks=tasks,
        groups=describe_groups({"both": [TASK, CORPUS]}),
        tables=["sample"],
        recipes={"short": make_recipe(**{"mixing": {"name": "uniform"}, **recipe})},
        experiments={"tiny": experiment},
    )


def make_cell(**recipe: Any) -> Cell:
    return read_cell("tiny", make_params(**recipe))


def make_trainer(cell: Cell, checkpoint: Path) -> Trainer:
    torch.manual_seed(7)
    model, _, tasks = prepare_tasks(cell)
    return Trainer(model, tasks, recipe=cell.recipe, seed=7, checkpoint=checkpoint)


def read_masked(cell: Cell, part: str) -> MaskedSplit:
    split = prepare_tasks(cell)[2][1].splits[part]
    assert isinstance(split, MaskedSplit)
    return split


def test_both_are_learnt_and_measured_by_name(project: Path) -> None:
    params = make_params(epochs=20, optimizer={"name": "adam", "lr": 0.02})
    train_cell(read_cell("tiny", params))
    found = evaluate_cell("tiny", params, project).metrics
    assert found[f"{TASK}.test.accuracy"].mean > 80
    # five words in turn: only their frequencies give a perplexity of 5
    assert found[f"{CORPUS}.held_out.perplexity"].mean < 4
    assert found[f"{CORPUS}.held_out.accuracy"].mean > 40
    assert not [name for name in found if "paper" in name]


def test_the_corpus_chooses_no_epoch(project: Path) -> None:
    progress = make_trainer(make_cell(epochs=3), project / "x").run().progress
    accuracy = {
        event["epoch"]: event["metrics"]["accuracy"]
        for event in progress.events
        if event["event"] == "validate" and event["task"] == TASK
    }
    measured = [event for event in progress.events if event.get("task") == CORPUS]
    assert len(measured) == 3
    assert set(measured[0]["metrics"]) == {"accuracy", "perplexity"}
    assert progress.best["honest"].score == max(accuracy.values())


@pytest.mark.parametrize(
    "mixing",
    [
        {"name": "proportional"},
        {"name": "temperature", "alpha": 0.5},
        {"name": "annealed", "last_alpha": 0.2},
        {"name": "main_ratio", "main": TASK, "ratio": 0.5},
        {"name": "sequential"},
    ],
)
def test_every_mixing_trains_both(project: Path, mixing: dict[str, Any]) -> None:
    trainer = make_trainer(make_cell(mixing=mixing, epochs=1, adversarial=SMART), project / "x")
    steps = trainer.run().progress.task_steps
    assert set(steps) == {TASK, CORPUS}
    assert steps[TASK] == 6 or mixing["name"] in ("temperature", "annealed")


@pytest.mark.parametrize("killed_at", [3, 9])
def test_a_killed_run_ends_as_an_undisturbed_one(project: Path, killed_at: int) -> None:
    cell = make_cell(validations_per_epoch=3, epochs=2, accumulate=2)
    check_resume(partial(make_trainer, cell), project, killed_at)


def test_masking_depends_on_seed_step_and_window_alone(project: Path) -> None:
    train = read_masked(make_cell(), "train")
    rows = np.array([0, 1, 2])

    def hide(seed: int, step: int, rows: np.ndarray) -> torch.Tensor:
        batch = train.draw(seed, step).batch(rows)
        return batch.targets["masked"][list(rows).index(1)]

    first = hide(1, 5, rows)
    assert torch.equal(first, hide(1, 5, np.array([1, 2]))[: len(first)])
    assert not torch.equal(first, hide(1, 6, rows))
    assert not torch.equal(first, hide(2, 5, rows))
    batch = train.draw(1, 5).batch(rows)
    (ids, _, inside, _) = batch.features["encoder"]
    hidden = batch.targets["masked"] != IGNORED
    assert hidden.any(1).all()
    assert not (hidden & ~inside).any()
    assert int(hidden.sum(1).max()) == round(0.3 * 10)
    assert (ids[~hidden] != MASK).all()


def test_the_held_out_part_is_always_masked_alike(project: Path) -> None:
    held_out = read_masked(make_cell(), "held_out")
    assert held_out.rule == RULE
    rows = np.arange(len(held_out.split))
    batch = held_out.batch(rows)
    hidden = batch.targets["masked"] != IGNORED
    assert (batch.features["encoder"][0][hidden] == MASK).all()
    assert held_out.split.target == hidden.sum(1).tolist()


def test_the_loss_is_that_of_a_softmax_over_all_pieces(project: Path) -> None:
    _, _, (_, corpus) = prepare_tasks(make_cell())
    batch = corpus.splits["train"].batch(np.arange(4))
    part = corpus.model.eval()
    head, block = part.heads["piece"], part.blocks["encoder"]
    assert isinstance(head, MaskedLanguageModelHead)
    hidden = block(*batch.features["encoder"], batch.masks["texts"])
    table = block.find_word_table().weight
    scores = functional.linear(
        head.piece.norm(functional.gelu(head.piece.dense(hidden))), table, head.piece.bias
    )
    target = batch.targets["masked"]
    expected = functional.cross_entropy(scores.flatten(0, 1), target.flatten(), ignore_index=-1)
    torch.testing.assert_close(part.loss(batch), expected)
    prediction = part.decode(batch)["piece"]
    is_hidden = target != IGNORED
    right = ((scores.argmax(-1) == target) & is_hidden).sum(1) / is_hidden.sum(1)
    assert prediction.probability is not None
    torch.testing.assert_close(prediction.probability[:, 0], right.double())


def test_its_predictions_are_measured_over_pieces(project: Path) -> None:
    cell = make_cell(epochs=1)
    folder = train_cell(cell)
    table = pq.read_table(folder / f"seed-1/predictions/{CORPUS}.parquet").to_pydict()
    assert set(table["split"]) == {"held_out"}
    assert len(table["id"]) == len(set(table["id"]))
    mean = -sum(table["prediction"]) / sum(table["target"])
    found = measure(
        "masked_language_model",
        ["perplexity", "accuracy"],
        Predictions([], table["target"], table["prediction"], np.array(table["score"])),
    )
    assert found["perplexity"] == pytest.approx(math.exp(mean))
    right = sum(n * s for n, (s,) in zip(table["target"], table["score"], strict=True))
    assert found["accuracy"] == pytest.approx(100 * right / sum(table["target"]))


def test_the_head_of_an_encoder_pretrained_here_goes_on(project: Path) -> None:
    model, _, _ = prepare_tasks(make_cell())
    kept = {name: torch.rand_like(value) for name, value in model.heads["piece"].state_dict().items()}  # noqa: E501  # fmt: skip
    save_tensors(project / "data/processed/tiny_encoder" / HEADS, {**kept, "pair.x": torch.ones(1)})
    again, _, _ = prepare_tasks(make_cell())
    torch.testing.assert_close(again.heads["piece"].state_dict(), kept, rtol=0, atol=0)


def test_a_head_over_words_is_refused(project: Path) -> None:
    graph = copy.deepcopy(MODEL)
    graph["inputs"]["words"] = "tokens.pieces"
    graph["layers"].append({"name": "by_word", "block": "encoder", "inputs": ["words"]})
    graph["heads"]["piece"]["inputs"] = ["by_word"]
    (project / "zoo/both.json").write_text(json.dumps(graph))
    with pytest.raises(ConfigError, match=r"head 'piece': inputs: found a layer over tokens"):
        make_cell()


def test_probabilities_above_one_are_refused(project: Path) -> None:
    graph = copy.deepcopy(MODEL)
    graph["heads"]["piece"] |= {"hidden_prob": 0.9, "random_prob": 0.2}
    (project / "zoo/both.json").write_text(json.dumps(graph))
    with pytest.raises(ConfigError, match=r"hidden_prob 0.9 and random_prob 0.2, expected at most"):
        prepare_tasks(make_cell())


def test_other_splits_are_encoded_as_ever(project: Path) -> None:
    cell = make_cell()
    _, featurizers, _ = prepare_tasks(cell)
    split = cell.tasks[0].read_split("dev")
    found = encode_split(featurizers[TASK], split)
    assert not isinstance(found, MaskedSplit)
    assert found.draw(1, 2) is found


def test_a_head_that_does_not_fit_the_pretrained_one_is_an_error(project: Path) -> None:
    model, _, _ = prepare_tasks(make_cell())
    path = project / "data/processed/tiny_encoder" / HEADS
    save_tensors(path, model.heads["piece"].state_dict())
    graph = copy.deepcopy(MODEL)
    graph["layers"].append(
        {"name": "narrow", "block": "linear", "inputs": ["encoder"], "hidden_dim": 6}
    )
    graph["heads"]["piece"]["inputs"] = ["narrow"]
    (project / "zoo/both.json").write_text(json.dumps(graph))
    with pytest.raises(ConfigError, match=r"head 'piece': piece.dense.weight: found \[8, 8\]"):
        prepare_tasks(make_cell())
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match="found a broken file"):
        prepare_tasks(make_cell())
