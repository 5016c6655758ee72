"""Pre-training with perturbed word vectors: gradients, resumption, and what stays the same."""

from pathlib import Path
from typing import Any

import pytest
import torch

from nlp_core.errors import ConfigError
from nlp_core.files import digest_file, digest_json, write_json
from nlp_core.training.history import read_history
from nlp_core.training.pretraining import pretrain_encoder
from tests.tiny_corpus import ARCHITECTURE, make_plan
from tests.tiny_pretraining import (
    FURTHER,
    check_resume,
    list_digests,
    project,
    read_note,
    write_start,
)

__all__ = ["project"]
SMART: dict[str, Any] = {
    "name": "smart",
    "weight": 1.0,
    "steps": 1,
    "step_size": 0.1,
    "noise_std": 0.01,
    "epsilon": 0.1,
    "norm": "l2",
    "level": "token",
    "divergence": "symmetric_kl",
}
PROXIMAL = {"weight": 0.5, "early_momentum": 0.5, "momentum": 0.9, "early_share": 0.5}
VAT = {"name": "vat", "weight": 1.0, "steps": 1, "probe": 0.1, "epsilon": 0.1, "level": "token"}
FREELB = {"name": "freelb", "steps": 2, "step_size": 0.1, "epsilon": 0.1, "norm": "l2"}
FREELB |= {"level": "token"}
FGM = {"name": "fgm", "weight": 1.0, "epsilon": 0.1, "level": "token"}
METHODS = [SMART | {"proximal": PROXIMAL}, VAT, FREELB, FGM]


@pytest.mark.parametrize("method", [None, "smart", "vat", "freelb", "fgm"])
def test_accumulated_parts_make_the_gradient_of_the_batch(
    project: Path, monkeypatch: pytest.MonkeyPatch, method: str | None
) -> None:
    adversarial = next((item for item in METHODS if item["name"] == method), None)
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    write_json(project / "encoders/tiny.json", ARCHITECTURE | still)
    gradients: dict[int, list[torch.Tensor]] = {}
    for parts in (1, 4):
        plan = make_plan(
            project, accumulate=parts, pairs="next_sentence", steps=1, adversarial=adversarial
        )

        def keep(optimizer: torch.optim.Optimizer, parts: int = parts) -> None:
            groups = optimizer.param_groups
            gradients[parts] = [p.grad.clone() for g in groups for p in g["params"]]

        with monkeypatch.context() as patch:
            patch.setattr("nlp_core.training.loop.update_weights", keep)
            pretrain_encoder(plan)
    for one, many in zip(gradients[1], gradients[4], strict=True):
        torch.testing.assert_close(one, many, rtol=1e-3, atol=1e-6)  # sums in another order


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method["name"])
def test_word_vectors_are_perturbed_and_a_killed_run_ends_with_the_same_bytes(
    project: Path, monkeypatch: pytest.MonkeyPatch, method: dict[str, Any]
) -> None:
    write_start(project)
    changes = FURTHER | {"steps": 8, "pairs": "sentence_order"}
    plain = list_digests(pretrain_encoder(make_plan(project, **changes)))
    plan = make_plan(project, **changes, adversarial=method)
    assert digest_file(pretrain_encoder(plan) / "model.safetensors") != plain["model.safetensors"]
    check_resume(plan, monkeypatch, [3, 5, 9])


@pytest.mark.parametrize("method", [SMART | {"proximal": None}, VAT], ids=["smart", "vat"])
def test_in_a_ball_of_no_size_an_encoder_is_trained_as_ever(
    project: Path, method: dict[str, Any]
) -> None:
    plain = pretrain_encoder(make_plan(project, pairs="next_sentence"))
    files, history = list_digests(plain), read_history(plain)
    method = method | {"epsilon": 0.0}
    plan = make_plan(project, pairs="next_sentence", adversarial=method)
    folder = pretrain_encoder(plan)
    assert read_history(folder) == history
    changed = {name for name, digest in list_digests(folder).items() if digest != files[name]}
    assert changed == {"cell.json"}


def test_the_key_depends_on_the_perturbation(project: Path) -> None:
    plan = make_plan(project)
    digest = digest_json(plan.config.describe())
    assert read_note(pretrain_encoder(plan))["recipe_digest"] == digest
    assert make_plan(project, adversarial=FGM).key != plan.key


def test_a_table_that_does_not_name_its_padding_is_refused(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = torch.nn.Embedding(9, 4)
    monkeypatch.setattr("nlp_core.objectives.build.find_word_tables", lambda model: [table])
    with pytest.raises(ConfigError, match=r"encoders\.tiny: layers: found a table .*padding_idx"):
        pretrain_encoder(make_plan(project, adversarial=FGM))
