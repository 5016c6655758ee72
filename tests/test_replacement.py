"""Pre-training by replaced pieces: what is drawn, what is shared, learnt, repeated and refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from nlp_core.errors import ConfigError
from nlp_core.files import write_json
from nlp_core.kinds import MASKED, TAGS
from nlp_core.models.batch import IGNORED
from nlp_core.models.replacement import ReplacedPieces, draw_pieces, replace_pieces
from nlp_core.training.encoder_plan import read_encoder
from nlp_core.training.pretraining import _prepare_tokenizer, pretrain_encoder
from nlp_core.training.pretraining_run import Pretraining
from nlp_core.training.processes import Processes
from tests.tiny_corpus import ARCHITECTURE, make_params, make_plan, write_project
from tests.tiny_pretraining import check_resume, list_digests, read_metrics

REPLACED: dict[str, Any] = {
    "replacement": {"weight": 50.0, "generator": 0.5},
    "masking": {"share": 0.2, "most": 5, "hidden_prob": 1.0, "random_prob": 0.0},
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_project(tmp_path)
    write_json(tmp_path / "encoders/tiny.json", ARCHITECTURE | {"model_type": "roformer"})
    return tmp_path


def start(project: Path, **changes: Any) -> tuple[Pretraining, ReplacedPieces]:
    plan = make_plan(project, **REPLACED | changes)
    work = project / "work"
    work.mkdir()
    run = Pretraining(plan, 3, _prepare_tokenizer(plan, work), work, Processes())
    assert isinstance(run.model.model, ReplacedPieces)
    return run, run.model.model


def test_a_piece_is_drawn_where_the_cumulated_probability_passes_the_number() -> None:
    logits = torch.tensor([[0.2, 0.5, 0.3]]).log().repeat(4, 1)
    draws = torch.tensor([0.0, 0.19, 0.21, 0.71], dtype=torch.float64)
    assert draw_pieces(logits, draws).tolist() == [0, 0, 1, 2]


def test_only_masked_pieces_are_replaced_and_a_right_draw_counts_as_original(
    project: Path,
) -> None:
    run, _ = start(project)
    batch = run.texts["held_out"].batch(run.texts["held_out"].split.ids[:6])
    target, (ids, *_) = batch.targets[MASKED], batch.features["encoder"]
    is_masked = target != IGNORED
    logits = torch.full((int(is_masked.sum()), 200), -1e4)
    right = target[is_masked]
    logits[torch.arange(len(right)), right] = 0.0
    logits[0, right[0]], logits[0, 7] = -1e4, 0.0
    replaced = replace_pieces(batch, logits)
    read, tags = replaced.features["encoder"][0], replaced.targets[TAGS]
    torch.testing.assert_close(read[~is_masked], ids[~is_masked])
    assert read[is_masked].tolist() == [7, *right[1:].tolist()]
    assert tags[is_masked].tolist() == [1] + [0] * (len(right) - 1)
    assert (tags[~batch.masks["texts"]] == IGNORED).all()
    assert tags.clamp(min=0).sum() == 1
    # what the generator reads stays
    torch.testing.assert_close(replaced.features["generator"][0], ids)


def test_a_window_is_replaced_alike_in_every_batch(project: Path) -> None:
    run, _ = start(project)
    split = run.texts["held_out"].draw(3, 5)
    both, one = split.batch(split.split.ids[:2]), split.batch(split.split.ids[1:2])
    assert both.draws is not None
    assert one.draws is not None
    torch.testing.assert_close(both.draws[1:, : one.draws.shape[1]], one.draws)
    assert (split.draw(3, 6).batch(split.split.ids[1:2]).draws != one.draws).any()


def test_the_smaller_generator_shares_the_embeddings(project: Path) -> None:
    _, model = start(project)
    encoder, generator = (model.blocks[name].encoder for name in ("encoder", "generator"))
    assert generator.get_input_embeddings() is encoder.get_input_embeddings()
    assert (encoder.config.hidden_size, generator.config.hidden_size) == (24, 12)
    assert not any("generator.encoder.embeddings." in name for name in model.state_dict())


def test_the_loss_weights_detection(project: Path) -> None:
    run, model = start(project)
    batch = run.texts["held_out"].batch(run.texts["held_out"].split.ids[:8])
    model.eval()
    generator, detector = model._parts
    scores, first = generator.score_with_loss(batch)
    replaced = replace_pieces(batch, scores["piece"][0])
    logits = detector(replaced)["detection"][0]
    tags = replaced.targets[TAGS]
    plain = torch.nn.functional.cross_entropy(logits[tags >= 0], tags[tags >= 0])
    torch.testing.assert_close(model.loss(batch), first + 50 * plain)


def test_a_killed_run_ends_with_the_same_bytes(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_resume(make_plan(project, **REPLACED), monkeypatch, [2, 7])


def test_accumulated_parts_make_the_gradient_of_the_batch(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    values = ARCHITECTURE | still | {"model_type": "roformer"}
    write_json(project / "encoders/tiny.json", values)
    gradients: dict[int, list[torch.Tensor]] = {}
    for parts in (1, 4):

        def keep(optimizer: torch.optim.Optimizer, parts: int = parts) -> None:
            groups = optimizer.param_groups
            weights = [p for group in groups for p in group["params"] if p.grad is not None]
            gradients[parts] = [weight.grad.clone() for weight in weights]

        monkeypatch.setattr("nlp_core.training.loop.update_weights", keep)
        pretrain_encoder(make_plan(project, accumulate=parts, steps=1, **REPLACED))
    for one, many in zip(gradients[1], gradients[4], strict=True):
        torch.testing.assert_close(one, many, rtol=1e-3, atol=1e-5)  # sums in another order


def test_a_plain_encoder_comes_out(project: Path) -> None:
    folder = pretrain_encoder(make_plan(project, **REPLACED))
    assert not (folder / "lm_head.safetensors").exists()
    assert json.loads((folder / "config.json").read_text())["hidden_size"] == 24
    assert not any("generator" in name for name in load_file(folder / "model.safetensors"))
    params = make_params(
        project,
        tiny=REPLACED,
        second={"init": "artifacts/cells/pretrain/tiny", "tokenizer": None},
    )
    first, second = (
        list_digests(folder),
        list_digests(pretrain_encoder(read_encoder("second", params))),
    )
    same = [name for name in second if second[name] == first.get(name)]
    assert same == ["config.json", "tokenizer.json"]


@pytest.mark.slow
def test_replaced_pieces_are_found_better_than_by_chance(project: Path) -> None:
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    values = ARCHITECTURE | still | {"model_type": "roformer"}
    write_json(project / "encoders/tiny.json", values)
    phases = [{"length": 16, "steps": 200, "batch_size": 32}]
    plan = make_plan(project, validate_every=100, phases=phases, **REPLACED)
    metrics = read_metrics(pretrain_encoder(plan))
    assert metrics["held_out.detection_accuracy"] > metrics["held_out.original"] + 2
    assert metrics["held_out.detection_f1"] > 50
    assert metrics["held_out.detection_auc"] > 90
    assert metrics["held_out.perplexity"] < 0.5 * metrics["before.held_out.perplexity"]


def test_an_encoder_that_cannot_learn_so_is_refused(project: Path) -> None:
    with pytest.raises(ConfigError, match="replacement: found it with pairs"):
        make_plan(project, pairs="sentence_order", **REPLACED)
    write_json(project / "encoders/tiny.json", ARCHITECTURE)
    with pytest.raises(ConfigError, match=r"found an encoder of type bert, whose embeddings"):
        pretrain_encoder(make_plan(project, **REPLACED))
