"""Hidden states and attention that a student learns from its teacher's: values and runs."""

import argparse
import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file
from torch import Tensor

from nlp_core.config.params import read_params
from nlp_core.config.recipe import KlConfig, MatchingConfig
from nlp_core.data.task import read_task
from nlp_core.encoders.pretrained import PretrainedEncoder
from nlp_core.files import digest_file, write_json
from nlp_core.models.batch import Batch
from nlp_core.objectives.distillation import SoftTargets, Student
from nlp_core.objectives.matching import compare_attention, compare_hidden
from nlp_core.training.cell_run import train_cell
from nlp_core.training.determinism import seed_everything
from nlp_core.training.run import prepare_tasks
from nlp_core.training.task_run import TaskRun
from stages.finetune import main
from tests.tiny import make_recipe
from tests.tiny_encoder import TINY_ENCODER
from tests.tiny_matching import MATCHING, make_model, make_params, plain, project
from tests.tiny_teaching import KL, SMART, ask
from tests.tiny_training import check_resume, make_trainer

__all__ = ["project"]
BOTH: dict[str, Any] = {**MATCHING, "hidden": {0: 0, 1: 1, 2: 2}, "attention": {1: 1, 2: 2}}
FREELB = {
    "name": "freelb",
    "steps": 2,
    "step_size": 0.1,
    "epsilon": 0.2,
    "norm": "l2",
    "level": "token",
}


def make_run(kind: str = "classification", **changes: Any) -> TaskRun:
    """Return the run of a student whose teacher is trained."""
    cell = ask(make_params(kind, **changes))
    seed_everything(3)
    _, _, (run,) = prepare_tasks(cell)
    return run


def find_soft_targets(run: TaskRun) -> SoftTargets:
    assert run.soft_targets is not None
    return run.soft_targets


def find_teacher(run: TaskRun) -> PretrainedEncoder:
    matching = find_soft_targets(run).matching
    assert matching is not None
    return matching.teacher


def find_student(run: TaskRun) -> PretrainedEncoder:
    block = run.model.blocks["encoder"]
    assert isinstance(block, PretrainedEncoder)
    return block


def read_term(run: TaskRun, batch: Batch) -> Tensor:
    """Return what matching adds to the loss of a batch."""
    soft_targets, losses = find_soft_targets(run), []
    for matching in (soft_targets.matching, None):
        torch.manual_seed(0)
        losses.append(Student(run.model, replace(soft_targets, matching=matching)).loss(batch))
    return losses[0] - losses[1]


def compute_term(run: TaskRun, batch: Batch, config: MatchingConfig) -> float:
    """Return the same from eager attention and hidden states, window by window."""
    ids, segments, inside, _ = batch.features["encoder"]
    passes = []
    for block in (find_student(run), find_teacher(run)):
        encoder = copy.deepcopy(block.encoder).eval()
        encoder.set_attn_implementation("eager")
        with torch.no_grad():
            passes.append(
                encoder(
                    input_ids=ids,
                    attention_mask=inside.long(),
                    token_type_ids=segments,
                    output_hidden_states=True,
                    output_attentions=True,
                )
            )
    said, taught = passes
    hidden, attention = [], []
    for window, mask in enumerate(inside):
        size = int(mask.sum())
        for ours, theirs in config.hidden.items():
            gap = (
                said.hidden_states[ours][window, :size]
                - taught.hidden_states[theirs][window, :size]
            )
            hidden.append(float(gap.square().mean()))
        for ours, theirs in config.attention.items():
            q = said.attentions[ours - 1][window, :, :size, :size]
            p = taught.attentions[theirs - 1][window, :, :size, :size]
            attention.append(float((p * (p / q).log()).sum(-1).mean()))
    return config.hidden_weight * np.mean(hidden) + config.attention_weight * np.mean(attention)


@pytest.mark.parametrize("kind", ["classification", "tagging"])
def test_values_are_those_of_a_plain_computation(project: Path, kind: str) -> None:
    config = {**MATCHING, "hidden_weight": 0.7, "attention_weight": 3.0}
    run = make_run(kind, matching=config)
    run.model.eval()
    batch = run.train.batch(np.arange(12))
    assert (len(batch.features["encoder"][0]) > 12) == (kind == "tagging")
    expected = compute_term(run, batch, MatchingConfig.model_validate(config))
    assert expected > 0.01
    assert float(read_term(run, batch).detach()) == pytest.approx(expected, rel=1e-4)


def test_attention_is_that_before_dropout(project: Path) -> None:
    run = make_run(matching={**MATCHING, "hidden": {}})
    run.model.eval()
    batch = run.train.batch(np.arange(12))
    expected = float(read_term(run, batch).detach())
    block = find_student(run)
    for module in block.modules():
        if type(module).__name__ == "BertSelfAttention":
            module.train().dropout.p = 0.5
    assert float(read_term(run, batch).detach()) == pytest.approx(expected, rel=1e-4)


def test_same_weights_cost_exactly_nothing(project: Path) -> None:
    run = make_run(matching=BOTH, student=make_model("classification"))
    find_student(run).load_state_dict(find_teacher(run).state_dict())
    batch = run.train.batch(np.arange(12))
    run.model.train()  # the encoder has no dropout here
    term = read_term(run, batch)
    assert float(term.detach()) == 0
    matching = find_soft_targets(run).matching
    assert matching is not None
    with matching.watch(run.model.plan, run.model.blocks) as passes:
        run.model(batch, informed=True)
    matching.compare(run.model.plan, batch, passes).backward()  # type: ignore[no-untyped-call]
    assert not any(p.grad.any() for p in run.model.parameters() if p.grad is not None)


def test_gradient_reaches_the_student_and_not_the_teacher(project: Path) -> None:
    run = make_run()
    teacher = find_teacher(run)
    before = {name: item.clone() for name, item in teacher.state_dict().items()}
    student = Student(run.model, replace(find_soft_targets(run), weight=0.0))
    student.train()
    read_term(run, run.train.batch(np.arange(8))).backward()  # type: ignore[no-untyped-call]
    grads = {n: p.grad for n, p in find_student(run).named_parameters() if p.grad is not None}
    for part in ("word_embeddings", "layer.0.attention.self.query", "layer.0.output.dense"):
        assert any(part in name and grad.any() for name, grad in grads.items()), part
    assert all(item.grad is None for item in teacher.parameters())
    assert not teacher.training
    assert not any(item.requires_grad for item in teacher.parameters())
    torch.testing.assert_close(teacher.state_dict(), before, rtol=0, atol=0)
    own = {id(item) for item in teacher.parameters()}
    assert not own & {id(item) for item in student.parameters()}
    assert student.state_dict().keys() == run.model.state_dict().keys()
    assert find_teacher(run) is copy.deepcopy(student).soft_targets.matching.teacher  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ["classification", "tagging"])
def test_padding_changes_no_value_and_no_gradient(project: Path, kind: str) -> None:
    run = make_run(kind)
    run.model.eval()
    batch = run.train.batch(np.arange(6))
    found = []
    for more in (0, 3):
        run.model.zero_grad()
        wide = pad(batch, more)
        term = read_term(run, wide)
        term.backward()  # type: ignore[no-untyped-call]
        grads = {n: p.grad for n, p in run.model.named_parameters() if p.grad is not None}
        found.append((float(term.detach()), grads))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-5)
    torch.testing.assert_close(found[0][1], found[1][1], rtol=1e-4, atol=1e-7)


def pad(batch: Batch, more: int) -> Batch:
    """Return a batch with longer windows, of any pieces behind their ends."""
    ids, segments, inside, places = batch.features["encoder"]
    width = ids.shape[1]
    wide = [torch.nn.functional.pad(item, (0, more)) for item in (ids, segments, inside)]
    wide[0][~wide[2]] = 7
    moved = places // width * (width + more) + places % width
    return replace(batch, features={**batch.features, "encoder": (*wide, moved)})


def test_changed_padding_states_are_never_read() -> None:
    torch.manual_seed(0)
    inside = torch.tensor([[True, True, False], [True, True, True]])
    taught, said = torch.randn(2, 3, 4), torch.randn(2, 3, 4)
    said_inf = said.masked_fill(~inside[..., None], torch.inf).requires_grad_()
    found = compare_hidden(taught, said_inf, inside)
    found.backward()  # type: ignore[no-untyped-call]
    gaps = (taught - said).square().mean(-1)
    assert float(found.detach()) == pytest.approx(
        float((gaps[0, :2].mean() + gaps[1].mean()) / 2), rel=1e-5
    )
    assert said_inf.grad is not None
    assert not said_inf.grad[0, 2].any()
    log_p, log_q = (torch.randn(2, 2, 3, 3).log_softmax(-1) for _ in range(2))
    rows = (log_p.exp() * (log_p - log_q)).sum(-1).mean(1)
    expected = (rows[0, :2].mean() + rows[1].mean()) / 2
    torch.testing.assert_close(compare_attention(log_p, log_q, inside), expected)


@pytest.mark.parametrize("kind", ["classification", "tagging"])
def test_parts_of_a_batch_add_up_to_the_whole(project: Path, kind: str) -> None:
    run = make_run(kind)
    run.model.eval()
    whole = read_term(run, run.train.batch(np.arange(12)))
    batches = [run.train.batch(rows) for rows in (np.arange(4), np.arange(4, 12))]
    parts = run.trained_model.share_terms(batches)
    added = torch.stack([read_term(run, item) for item in parts]).sum()
    torch.testing.assert_close(added, whole)


def test_recording_changes_no_output(project: Path) -> None:
    run = make_run(matching=None)
    block, batch = find_student(run), run.train.batch(np.arange(8))
    fields = (*batch.features["encoder"], batch.masks["texts"])
    found = []
    for prepare in (lambda: True, block.allow_attention):
        assert prepare()
        torch.manual_seed(1)
        found.append(block.train()(*fields))
    torch.manual_seed(1)
    with block.record(attention=True) as passes:
        found.append(block(*fields))
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])
    ((hidden, attended),) = passes
    assert (len(hidden), len(attended)) == (2, 1)


SMALLEST: dict[str, Any] = {**TINY_ENCODER, "pad_token_id": 1}
SORTS: dict[str, dict[str, Any]] = {
    "albert": {**SMALLEST, "embedding_size": 4},
    "distilbert": {"dim": 8, "hidden_dim": 12, "n_heads": 2, "n_layers": 2, "vocab_size": 17},
    "electra": {**SMALLEST, "embedding_size": 8},
    "mpnet": SMALLEST,
    "roberta": SMALLEST,
    "roformer": SMALLEST,
}


@pytest.mark.parametrize("sort", sorted(SORTS))
def test_attention_of_other_sorts_of_encoders(sort: str) -> None:
    torch.manual_seed(0)
    block = PretrainedEncoder({**SORTS[sort], "model_type": sort}, dim=8).eval()
    ids, places = torch.randint(4, 17, (2, 6)), torch.arange(12).view(2, 6)
    inside = torch.arange(6) < torch.tensor([[6], [4]])
    assert (block.num_layers, block.num_heads, block.width) == (2, 2, 8)
    for _ in range(2):
        assert block.allow_attention() == (sort != "mpnet")  # which has a bias of its own
    if sort == "mpnet":
        return
    with block.record(attention=True) as passes:
        block(ids, torch.zeros_like(ids), inside, places, inside)
    assert len(passes[0].attended) == 2
    encoder = copy.deepcopy(block.encoder)
    encoder.set_attn_implementation("eager")
    eager = encoder(input_ids=ids, attention_mask=inside.long(), output_attentions=True)
    for attended, expected in zip(passes[0].attended, eager.attentions, strict=True):
        found = attended.log_weights(inside).exp()
        torch.testing.assert_close(found.mT[1, ..., :4], expected.mT[1, ..., :4])
        torch.testing.assert_close(found[0], expected[0])


def test_arithmetic_in_16_bits_is_matched(project: Path) -> None:
    cell = ask(make_params(precision="bfloat16"))
    trainer = make_trainer(cell, project / "none.safetensors")
    (item,) = trainer.tasks.values()
    with torch.autocast("cpu", torch.bfloat16):
        rough = read_term(item, item.train.batch(np.arange(8)))
    exact = read_term(item, item.train.batch(np.arange(8)))
    assert float(rough.detach()) == pytest.approx(float(exact.detach()), rel=0.2)
    trainer.step(cell.task.name, np.arange(8))


def test_checkpointing_changes_no_gradient(project: Path) -> None:
    found = []
    for checkpointing in (False, True):
        graph = make_model("classification", num_layers=1, checkpointing=checkpointing)
        run = make_run(student=graph)
        run.model.train()
        read_term(run, run.train.batch(np.arange(8))).backward()  # type: ignore[no-untyped-call]
        found.append({n: p.grad for n, p in find_student(run).named_parameters()})
    torch.testing.assert_close(found[1], found[0])


def test_no_weight_is_training_without_matching_to_the_bit(project: Path) -> None:
    none = {**MATCHING, "hidden_weight": 0.0, "attention_weight": 0.0}
    found = []
    for matching in (None, none, MATCHING):
        folder = train_cell(ask(make_params(matching=matching)))
        found.append(digest_file(folder / "seed-1/model.safetensors"))
    assert found[0] == found[1]
    assert found[0] != found[2]


@pytest.mark.parametrize("adversarial", [None, FREELB, SMART], ids=["plain", "freelb", "smart"])
def test_killed_run_ends_with_the_bits_of_an_undisturbed_one(
    project: Path, adversarial: dict[str, Any] | None
) -> None:
    cell = ask(make_params(adversarial=adversarial, validations_per_epoch=2, accumulate=2))
    check_resume(lambda path: make_trainer(cell, path), project, 4)


def test_adversarial_passes_are_matched(project: Path) -> None:
    found = []
    for matching in (None, MATCHING):
        cell = ask(make_params(matching=matching, adversarial=FREELB))
        trainer = make_trainer(cell, project / "none.safetensors")
        (objective,) = trainer.objectives.values()
        found.append(objective.backward(trainer.tasks[cell.task.name].train.batch(np.arange(8)), 0))
    assert found[1] > found[0] + 0.01


def test_student_is_trained_by_its_stage(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    params = make_params("tagging", epochs=6)
    (project / "params.yaml").write_text(yaml.safe_dump(plain(params)))
    assert read_params(project / "params.yaml") == params
    ask(params)
    terms: list[float] = []
    matched = Student.score_with_loss

    def note(self: Student, batch: Batch) -> Any:
        scores, loss = matched(self, batch)
        terms.append(float((loss - self.sum_losses(scores, batch)).detach()))
        return scores, loss

    monkeypatch.setattr(Student, "score_with_loss", note)
    main(argparse.Namespace(cell="young", time_limit=None, profile=None, tensorboard=None))
    assert 0 < np.mean(terms[-6:]) < np.mean(terms[:6])
    names = load_file(project / "artifacts/cells/sample/young/seed-1/model.safetensors").keys()
    assert names
    assert not [name for name in names if "layer.1." in name or "teacher" in name]


def test_key_of_a_recipe_without_matching_stays() -> None:
    recipe = make_recipe(distillation=KL)
    assert recipe.describe()["distillation"] == KL | {"task_weights": None}
    matched = make_recipe(distillation={**KL, "matching": MATCHING}).describe()["distillation"]
    assert matched["matching"]["hidden_weight"] == 1.0
    assert isinstance(recipe.distillation, KlConfig)


def test_key_of_a_matched_cell_is_that_of_its_teacher(project: Path) -> None:
    cell = ask(make_params())
    key, path = cell.key, cell.task.folder / "manifest.json"
    note = json.loads(path.read_text())
    note["soft"]["teachers"][0][2] = "0" * 64
    write_json(path, note)
    assert replace(cell, tasks=[read_task(cell.task.folder)]).key != key
