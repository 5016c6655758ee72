"""Pre-training: what is learnt, what is repeated, what comes out, and what is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from nlp_core.config.params import ExperimentConfig, Params
from nlp_core.encoders.folder import MODEL_TYPES
from nlp_core.errors import ConfigError, DataError, TrainingError
from nlp_core.files import digest_file, write_json
from nlp_core.kinds import CLASSIFICATION
from nlp_core.models.features import Featurizer
from nlp_core.models.graph import GraphModel, build_model
from nlp_core.training.cell import read_cell
from nlp_core.training.encoder_plan import read_encoder
from nlp_core.training.history import read_history, summarise_history
from nlp_core.training.loop import Trainer
from nlp_core.training.pretraining import pretrain_encoder
from tests.tiny import make_recipe, write_task
from tests.tiny_corpus import ARCHITECTURE, ENCODER, make_params, make_plan
from tests.tiny_pretraining import (
    FURTHER,
    check_resume,
    list_digests,
    list_points,
    project,
    read_metrics,
    read_note,
    write_start,
)

__all__ = ["project"]


@pytest.mark.slow
def test_a_tiny_encoder_learns(project: Path) -> None:
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    write_json(project / "encoders/tiny.json", ARCHITECTURE | still)
    phases = [{"length": 16, "steps": 200, "batch_size": 32}]
    folder = pretrain_encoder(make_plan(project, validate_every=50, phases=phases))
    metrics = read_metrics(folder)
    for text in ("tiny_text", "held_out"):
        assert metrics[f"{text}.perplexity"] < 0.25 * metrics[f"before.{text}.perplexity"]
        assert metrics[f"{text}.accuracy"] > metrics[f"before.{text}.accuracy"] + 20
    train = [event["loss"] for event in read_history(folder) if event["event"] == "train"]
    assert train[-1] < 0.6 * train[0]


@pytest.mark.parametrize("sort", MODEL_TYPES)
def test_every_sort_of_encoder_begins_from_nothing(project: Path, sort: str) -> None:
    size = {"dim": 24, "n_layers": 1, "n_heads": 2, "hidden_dim": 32, "max_position_embeddings": 32}
    values = size if sort == "distilbert" else ARCHITECTURE
    write_json(project / "encoders/tiny.json", values | {"model_type": sort})
    folder = pretrain_encoder(make_plan(project, steps=2, validate_every=2))
    assert json.loads((folder / "config.json").read_text())["model_type"] == sort
    before, after = list_points(folder)[::2]
    assert before["metrics"]["perplexity"] != after["metrics"]["perplexity"]


def test_a_further_seed_is_trained_alone_and_shows_the_spread(
    project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    alone = pretrain_encoder(make_plan(project, steps=2))
    encoder, metrics = list_digests(alone), read_metrics(alone)
    caplog.set_level("INFO")
    folder = pretrain_encoder(make_plan(project, steps=2, seeds=[3, 4]))
    assert "pretrain kept encoder=tiny seed=3" in caplog.text
    assert {path.name for path in folder.iterdir()} == {*encoder, "seed-4"}
    assert [path.name for path in (folder / "seed-4").iterdir()] == ["history.jsonl"]
    assert all(digest_file(folder / name) == encoder[name] for name in {*encoder} - {"cell.json"})
    note = read_note(folder)
    assert note["seeds"] == [3, 4]
    assert note["runs"]["3"]["weights"] != note["runs"]["4"]["weights"]
    first, second = note["metrics"]["tiny_text.perplexity"]
    assert first == metrics["tiny_text.perplexity"] != second


def test_folder_is_that_of_an_encoder(project: Path) -> None:
    folder = pretrain_encoder(make_plan(project))
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["kind"] == "encoder"
    assert manifest["model_type"] == "bert"
    assert sorted(manifest["files"]) == ["config.json", "model.safetensors", "tokenizer.json"]
    for name, digest in manifest["files"].items():
        assert digest_file(folder / name) == digest
    note = read_note(folder)
    assert note["tasks"]["tiny_corpus"]["footnotes"] == ["documents.jsonl: made up"]
    assert note["parameters"]["total"] == sum(
        tensor.numel() for tensor in load_file(folder / "model.safetensors").values()
    )
    (work,) = (project / "artifacts/work/pretrain/tiny").iterdir()
    assert {path.name for path in work.iterdir()} == {"lock", "seed-3", "tokenizer.json"}
    points = list_points(folder)
    assert [event["step"] for event in points] == [0, 0, 4, 4, 8, 8, 12, 12]
    assert [event["split"] for event in points[-2:]] == ["held_out", "tiny_text"]


@pytest.mark.parametrize("changes", [{}, {"optimizer": ENCODER["optimizer"] | {"name": "lamb"}}])
@pytest.mark.parametrize("pairs", [None, "sentence_order"])
def test_a_killed_run_ends_with_the_same_bytes(
    project: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], pairs: str | None
) -> None:
    phases = [
        {"length": 12, "steps": 7, "batch_size": 16},
        {"length": 24, "steps": 5, "batch_size": 8},
    ]
    plan = make_plan(project, phases=phases, pairs=pairs, short_prob=0.1, **changes)
    check_resume(plan, monkeypatch, [2, 7, 11])


def test_head_is_fitted_first_and_the_encoder_waits(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_start(project)
    plan = make_plan(project, **FURTHER)
    began = load_file(plan.init / "model.safetensors")
    states: dict[int, dict[str, torch.Tensor]] = {}
    original = Trainer.step

    def step(self: Trainer, *given: Any) -> None:
        states[len(states)] = {
            name: tensor.clone() for name, tensor in self.model.state_dict().items()
        }
        original(self, *given)

    monkeypatch.setattr(Trainer, "step", step)
    folder = pretrain_encoder(plan)
    start = "blocks.encoder.encoder."
    for name, tensor in began.items():
        torch.testing.assert_close(states[4][start + name], tensor, rtol=0, atol=0)
    table = f"{start}embeddings.word_embeddings.weight"
    assert (states[5][table] != states[4][table]).any()
    assert (states[4]["heads.piece.piece.bias"] != 0).any()
    measured = [event for event in read_history(folder) if event["event"] == "measure"]
    assert [(event["at"], event["step"]) for event in measured[::3]] == [
        ("fresh", 0),
        ("before", 4),
        ("after", 16),
    ]
    assert (folder / "tokenizer.json").read_text() == (plan.init / "tokenizer.json").read_text()


def test_a_killed_head_start_ends_with_the_same_bytes(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_start(project)
    plan = make_plan(project, **FURTHER | {"head_start": {"steps": 6, "lr": 0.01}})
    check_resume(plan, monkeypatch, [5, 6, 7])


def test_weights_arrive_unchanged_in_a_cell(project: Path) -> None:
    write_start(project)
    params = make_params(project, tiny=FURTHER)
    folder = pretrain_encoder(read_encoder("tiny", params))
    write_task(project)
    graph = {
        "inputs": {"texts": "texts"},
        "layers": [
            {"name": "all", "block": "pretrained_encoder", "inputs": ["texts"], "dim": 24}
            | {"max_length": 12},
            {"name": "top", "block": "pooling", "inputs": ["all"], "pool": "mean"},
        ],
        "heads": {"out": {"head": "classification", "inputs": ["top"]}},
    }
    path = project / "zoo/tiny.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"description": "d", "source": "s", **graph}))
    experiment = ExperimentConfig(
        table="glue",
        model="zoo/tiny.json",
        data="tiny_classification",
        init="artifacts/cells/pretrain/tiny",
        recipe="short",
        seeds=[1],
    )
    values = params.model_dump() | {
        "tasks": [*params.tasks, "tiny_classification"],
        "recipes": {"short": make_recipe().model_dump()},
    }
    cells = {"cell": experiment.model_dump()}
    cell = read_cell("cell", Params.model_validate({**values, "experiments": cells}))
    train = cell.task.read_split("train")
    featurizer = Featurizer.build(cell.plan, cell.task, train, cell.init)
    state = build_model(cell.plan, featurizer, kind=CLASSIFICATION).state_dict()
    for name, tensor in load_file(folder / "model.safetensors").items():
        (own,) = [key for key in state if key.endswith(f"encoder.{name}")]
        torch.testing.assert_close(state[own], tensor, rtol=0, atol=0)
    cells["cell"]["init"] = "artifacts/cells/pretrain/tinny"
    with pytest.raises(ValueError, match="unknown cell 'tinny'"):
        Params.model_validate({**values, "experiments": cells})


def test_decoder_is_the_table_of_embeddings(project: Path) -> None:
    folder = pretrain_encoder(make_plan(project))
    heads = load_file(folder / "lm_head.safetensors")
    size = json.loads((folder / "config.json").read_text())["vocab_size"]
    assert {name: tuple(tensor.shape) for name, tensor in heads.items()} == {
        "piece.bias": (size,),
        "piece.dense.bias": (24,),
        "piece.dense.weight": (24, 24),
        "piece.norm.bias": (24,),
        "piece.norm.weight": (24,),
    }


def test_an_encoder_that_is_trained_on_keeps_its_head(project: Path) -> None:
    params = make_params(
        project,
        first={},
        second={"init": "artifacts/cells/pretrain/first", "tokenizer": None},
    )
    first = read_metrics(pretrain_encoder(read_encoder("first", params)))
    second = read_metrics(pretrain_encoder(read_encoder("second", params)))
    for key in ("tiny_text.perplexity", "held_out.accuracy"):
        assert second[f"before.{key}"] == pytest.approx(first[key], abs=1e-5)


@pytest.mark.parametrize("pairs", ["next_sentence", "sentence_order"])
def test_pairs_are_learnt_and_their_head_goes_on(project: Path, pairs: str) -> None:
    further = {"init": "artifacts/cells/pretrain/first", "tokenizer": None}
    params = make_params(project, first={"pairs": pairs}, second=further | {"pairs": pairs})
    first = pretrain_encoder(read_encoder("first", params))
    heads = load_file(first / "lm_head.safetensors")
    assert heads["pair.layers.out.weight"].shape == (2, 24)
    before = read_metrics(first)
    after = read_metrics(pretrain_encoder(read_encoder("second", params)))
    assert after["before.train.pair_accuracy"] == before["train.pair_accuracy"]
    assert 0 < before["train.pair_accuracy"] < 100
    assert "held_out.pair_accuracy" not in before


def test_each_phase_has_windows_of_its_length(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    phases = [
        {"length": 12, "steps": 3, "batch_size": 16},
        {"length": 24, "steps": 2, "batch_size": 8},
    ]
    shapes, original = [], Trainer.step

    def step(self: Trainer, name: str, rows: np.ndarray) -> None:
        shapes.append((len(rows), self.tasks[name].train.lengths.max()))
        original(self, name, rows)

    monkeypatch.setattr(Trainer, "step", step)
    folder = pretrain_encoder(make_plan(project, phases=phases))
    assert shapes == [(16, 12)] * 3 + [(8, 24)] * 2
    assert [event["step"] for event in list_points(folder)[::2]] == [0, 3, 5]


def test_a_corpus_shorter_than_the_training_is_read_again(project: Path) -> None:
    folder = pretrain_encoder(make_plan(project, steps=300, validate_every=100))
    assert list_points(folder)[-1]["epoch"] > 1


def test_history_is_summed_up() -> None:
    events = [
        {"event": "measure", "at": "before", "split": "t", "metrics": {"perplexity": 9.0}},
        {"event": "train", "step": 2, "loss": 1.0},
        {"event": "measure", "at": "after", "split": "t", "metrics": {"perplexity": 3.0}},
    ]
    assert summarise_history(events) == {
        "before.t.perplexity": 9.0,
        "t.perplexity": 3.0,
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": "tiny_crpus"}, r"encoders.tiny.data: unknown task 'tiny_crpus'. Did you mean"),
        ({"init": "data/processed/other"}, r"encoders.tiny: init: .* and a tokenizer; an encoder"),
        ({"phases": []}, "encoders.tiny.phases: "),
        ({"mask": {}}, "encoders.tiny.mask: unknown key. Did you mean 'masking'?"),
        ({"optimizer": {"name": "adm"}}, "found 'adm'. Did you mean 'adam'?"),
        (
            {"optimizer": {"name": "sgd", "lr": 0.1, "eps": 0.1}},
            "found eps with sgd; only adam, adamw, lamb, radam, nadam, .* have it",
        ),
        ({"init": "artifacts/cells/pretrain/tiny", "tokenizer": None}, "unknown encoder 'tiny'"),
        ({"masking": {"share": 0.1, "most": 2, "random_prob": 0.3}}, "at most 1 together"),
        (
            {"head_start": {"steps": 2, "lr": 0.1}},
            "trained from scratch, which begins with its head",
        ),
        (
            {
                "init": "data/processed/tiny_text",
                "tokenizer": None,
                "head_start": {"steps": 2, "lr": 0.001},
                "schedule": {"name": "cyclic", "min_lr": 0.002, "rise": 2},
            },
            "head_start.lr: found 0.001, expected at least 0.002, the schedule's min_lr",
        ),
    ],
)
def test_wrong_values_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_params(tmp_path, tiny=changes)


def test_encoders_that_start_from_each_other_are_refused(tmp_path: Path) -> None:
    one, two = (
        {"init": f"artifacts/cells/{ENCODER['table']}/{name}", "tokenizer": None}
        for name in ("two", "one")
    )
    with pytest.raises(ConfigError, match=r"encoders\.\w+\.init: found a cycle: (one|two) from "):
        make_params(tmp_path, one=one, two=two)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "hiden_size",
            8,
            r"encoders/tiny.json: hiden_size: unknown key of bert. Did you mean 'hidd",
        ),
        ("vocab_size", 8, r"vocab_size: found a value; remove it, the tokenizer"),
        ("hidden_size", "a", r"encoders/tiny.json: .*hidden_size"),
        ("model_type", "brt", r"model_type: found 'brt'. Did you mean 'bert'"),
        ("max_position_embeddings", 12, r"phases.0.length: found 16, expected at most 12"),
    ],
)
def test_wrong_architecture_is_refused(
    project: Path, key: str, value: object, message: str
) -> None:
    write_json(project / "encoders/tiny.json", ARCHITECTURE | {key: value})
    with pytest.raises(ConfigError, match=message):
        pretrain_encoder(make_plan(project))


def test_what_is_missing_is_named(project: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown encoder 'tinny'\. Did you mean 'tiny'"):
        read_encoder("tinny", make_params(project, tiny={}))
    with pytest.raises(DataError, match="run `dvc repro preprocess@tiny_encoder`"):
        make_plan(project, **FURTHER)
    (project / "data/processed/tiny_text").rename(project / "gone")
    write_task(project).rename(project / "data/processed/tiny_text")
    plan = make_plan(project)
    with pytest.raises(ConfigError, match="expected language_model, such as"):
        pretrain_encoder(plan)
    (project / "data/processed/tiny_corpus/manifest.json").unlink()
    with pytest.raises(DataError, match="run `dvc repro preprocess@tiny_corpus`"):
        make_plan(project)


def test_too_few_pieces_are_refused(project: Path) -> None:
    plan = make_plan(project, tokenizer={"vocab_size": 16, "lowercase": True})
    with pytest.raises(ConfigError, match=r"encoders\.tiny\.tokenizer\.vocab_size: found 16"):
        pretrain_encoder(plan)


def test_a_loss_that_is_not_finite_ends_the_run(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil(self: GraphModel, *given: object) -> tuple[None, torch.Tensor]:
        return None, torch.tensor(float("nan"), requires_grad=True)

    monkeypatch.setattr(GraphModel, "score_with_loss", spoil)
    with pytest.raises(TrainingError, match="tiny_corpus: found a loss of nan at step 1"):
        pretrain_encoder(make_plan(project))


def test_the_encoder_is_the_average_that_was_measured(project: Path) -> None:
    schedule = {"name": "constant"}
    optimizer = {"name": "adamw_schedule_free", "lr": 0.02}
    plan = make_plan(project, steps=20, validate_every=10, optimizer=optimizer, schedule=schedule)
    kept: list[dict[str, torch.Tensor]] = []
    run = Trainer.run

    def keep(self: Trainer, *arguments: Any) -> Any:
        trained = run(self, *arguments)
        kept.append(trained.states["honest"])
        return trained

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "run", keep)
        folder = pretrain_encoder(plan)
    saved = load_file(folder / "model.safetensors")
    (name,) = (key for key in saved if "word_embeddings" in key)
    (averaged,) = (value for key, value in kept[-1].items() if "word_embeddings" in key)
    assert torch.equal(saved[name], averaged)
