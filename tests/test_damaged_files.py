"""What was flipped or cut after it was written is noticed before it is used, or made again."""

import logging
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from benchmarks.faults.damaged_artifacts import damage, list_artifacts, run_artifact
from nlp_core.config.user_data import DataConfig
from nlp_core.data import tokenization
from nlp_core.data.user_file import read_user_file
from nlp_core.training.checkpoint import Progress, is_usable, load_checkpoint, save_checkpoint


def test_a_damaged_checkpoint_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, weights = tmp_path / "checkpoint", torch.arange(6.0, requires_grad=True)
    optimizer = torch.optim.Adam([weights])
    weights.sum().backward()
    optimizer.step()
    assert not is_usable(path)
    generators = [torch.get_rng_state()]
    save_checkpoint(path, Progress(step=3), {"model": {"w": weights}}, optimizer, generators)
    assert is_usable(path)
    assert load_checkpoint(path, optimizer)[0].step == 3
    whole = path.read_bytes()
    place = whole.index(b'\\"step\\": 3') + len(b'\\"step\\": ')
    for content in (
        whole[:-1],
        whole[:40],
        whole[:-5] + bytes([whole[-5] ^ 1]) + whole[-4:],
        whole[:place] + b"4" + whole[place + 1 :],
    ):
        path.write_bytes(content)
        with caplog.at_level(logging.WARNING):
            assert not is_usable(path)
        assert "found a damaged checkpoint; the run starts from the beginning" in caplog.text
        caplog.clear()


@dataclass
class OtherProgress(Progress):
    """What code of another version may keep."""

    warm: bool = False


def test_a_checkpoint_of_other_code_is_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, weights = tmp_path / "checkpoint", torch.ones(2)
    optimizer, generators = torch.optim.SGD([weights], lr=0.1), [torch.get_rng_state()]
    save_checkpoint(path, OtherProgress(), {"model": {"w": weights}}, optimizer, generators)
    with caplog.at_level(logging.WARNING):
        assert not is_usable(path)
    assert "found a checkpoint of other code; the run starts from the beginning" in caplog.text


@pytest.mark.parametrize("name", ["examples.parquet", "manifest.json"])
def test_damaged_examples_in_the_cache_are_written_again(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("REGLUE_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "a.tsv"
    path.write_text("text\tlabel\na b\tx\nc\ty\n")
    data = DataConfig(kind="classification", format="tsv", texts=["text"], label="label")
    expected = read_user_file(path, data, "train").texts["tokens"].lexicon
    (stored,) = (tmp_path / "cache").glob(f"*/*/{name}")
    stored.write_bytes(damage(stored.read_bytes(), 7))
    assert read_user_file(path, data, "train").texts["tokens"].lexicon == expected
    assert "found damaged examples in the cache; they are written again" in caplog.text


@pytest.mark.parametrize("tokens", ["words", "nfkc+words"])
def test_another_version_of_a_tokenizer_cuts_the_texts_again(
    tmp_path: Path, tokens: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGLUE_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "a.tsv"
    path.write_text("text\tlabel\na b\tx\nc\ty\n")
    values = {"kind": "classification", "format": "tsv", "texts": ["text"], "label": "label"}
    data = DataConfig.model_validate({**values, "tokens": tokens})
    for version, number in (("1.0", 1), ("1.0", 1), ("2.0", 2)):
        monkeypatch.setattr(tokenization, "version", {"nltk": version}.__getitem__)
        read_user_file(path, data, "train")
        assert len([*(tmp_path / "cache").glob("*/*/examples.parquet")]) == number


@pytest.mark.slow
def test_damaged_artifacts_are_noticed(tmp_path: Path) -> None:
    for artifact in list_artifacts(tmp_path):
        assert run_artifact(artifact, 2, seed=3) == [], artifact.name
