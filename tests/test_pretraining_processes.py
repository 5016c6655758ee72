"""Pre-training in several processes, with shards the same files, and in 16 bits."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from nlp_core.config.base import parse_config
from nlp_core.config.pretraining import EncoderConfig
from nlp_core.errors import ConfigError
from nlp_core.files import digest_file, write_json
from nlp_core.training.pretraining import pretrain_encoder
from tests.test_processes import launch
from tests.test_replacement import REPLACED
from tests.tiny_corpus import ARCHITECTURE, ENCODER, make_params, make_plan, write_project

STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def pretrain(root: Path, number: int) -> Path:
    """Pretrain the encoder `tiny` in several processes; return its folder, moved out of the way."""
    launch(root, number, "pretrain")
    (root / "artifacts").rename(root / f"by-{number}")
    return root / f"by-{number}/cells/pretrain/tiny"


@pytest.mark.slow
@pytest.mark.parametrize("pairs", [None, "next_sentence"])
def test_two_processes_give_the_steps_of_one(tmp_path: Path, pairs: str | None) -> None:
    write_project(tmp_path)
    write_json(tmp_path / "encoders/tiny.json", ARCHITECTURE | STILL)
    make_params(tmp_path, tiny={"pairs": pairs})
    one, two = (load_file(pretrain(tmp_path, number) / "model.safetensors") for number in (1, 2))
    torch.testing.assert_close(two, one, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, REPLACED], ids=["masked", "replaced"])
def test_with_shards_any_number_writes_the_same_files(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    write_project(tmp_path)
    write_json(tmp_path / "encoders/tiny.json", ARCHITECTURE | {"model_type": "roformer"})
    make_params(tmp_path, tiny={"shards": 4, **changes})
    found = []
    for number in (1, 2, 4):
        folder = pretrain(tmp_path, number)
        found.append({path.name: digest_file(path) for path in sorted(folder.iterdir())})
    assert "model.safetensors" in found[0]
    assert found[1] == found[0]
    assert found[2] == found[0]


def test_shards_and_accumulate_exclude_each_other() -> None:
    values: dict[str, Any] = ENCODER | {"shards": 2, "accumulate": 2}
    with pytest.raises(ConfigError, match="set accumulate to null"):
        parse_config(values, EncoderConfig, where="tiny")


def test_16_bits_train_weights_of_32(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_project(tmp_path)
    ends = []
    for precision in (None, "bfloat16"):
        folder = pretrain_encoder(make_plan(tmp_path, precision=precision))
        ends.append(load_file(folder / "model.safetensors"))
    assert {value.dtype for value in ends[1].values()} == {torch.float32}
    assert any(not torch.equal(ends[0][name], value) for name, value in ends[1].items())
    torch.testing.assert_close(ends[1], ends[0], rtol=0.1, atol=0.1)
