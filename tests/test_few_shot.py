"""Few-shot training: pairs, their loss, and a head that is fitted to the vectors."""

import itertools
import json
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nlp_core.cli import main
from nlp_core.files import digest_file
from nlp_core.training import few_shot
from nlp_core.training.few_shot import EACH, VALIDATIONS, compute_pair_loss, draw_batches
from tests.test_user_encoder import write_rows
from tests.tiny_encoder import write_encoder
from tests.user_commands import fail
from tests.user_files import write_tsv


def test_the_loss_of_pairs_by_hand() -> None:
    vectors = torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 2.0]])
    assert compute_pair_loss(vectors, torch.tensor([0, 0, 1])) == 0.0
    # of one label: (0, 2), cosine 0; others: cosines 1 and 0
    assert compute_pair_loss(vectors, torch.tensor([0, 1, 0])) == pytest.approx((1 + 0.5) / 2)


def test_a_batch_of_one_example_has_no_loss() -> None:
    vectors = torch.ones(1, 3, requires_grad=True)
    compute_pair_loss(vectors, torch.tensor([0])).backward()
    assert vectors.grad is not None


@given(st.lists(st.integers(0, 5), min_size=2, max_size=40), st.integers(2, 16))
def test_labels_take_turns_in_batches(labels: list[int], batch_size: int) -> None:
    target = np.array(labels)
    batches = list(islice(draw_batches(target, batch_size, 1), 20))
    assert {len(rows) for rows in batches} == {batch_size}
    for rows in batches:
        counts = [int((target[rows] == label).sum()) for label in np.unique(target)]
        # the first turn of a batch and its last may be cut off
        assert max(counts) - min(counts) <= 2 * EACH
    again = list(islice(draw_batches(target, batch_size, 1), 20))
    assert all((first == second).all() for first, second in zip(batches, again, strict=True))


def test_an_encoder_learns_from_pairs(place: Path) -> None:
    encoder = write_encoder(place)
    write_rows(place / "a.jsonl", "classification")
    few = ["--set", "training.few_shot=true", "--epochs", "3", "--lr", "0.003"]
    main(["train", "a.jsonl", "--init", str(encoder), *few, "-o", "out"])
    found = json.loads((place / "out/metrics.json").read_text())
    assert found["metrics"]["dev"]["accuracy"] > 80
    events = [json.loads(line) for line in (place / "out/history.jsonl").read_text().splitlines()]
    assert [event["event"] for event in events].count("validate") == VALIDATIONS
    main(["predict", "out", "--data", "a.jsonl", "-o", "p.jsonl"])


def test_a_killed_run_resumes_with_the_same_bits(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = write_encoder(place)
    write_rows(place / "a.jsonl", "classification")
    few = ["--set", "training.few_shot=true", "--epochs", "3", "--set", "training.ema_decay=0.9"]
    command = ["train", "a.jsonl", "--init", str(encoder), *few, "-o"]
    main([*command, "whole"])
    batches, loss = itertools.count(1), few_shot.compute_pair_loss

    def kill(vectors: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if next(batches) == 12:
            raise KeyboardInterrupt
        return loss(vectors, labels)

    with monkeypatch.context() as patch:
        patch.setattr(few_shot, "compute_pair_loss", kill)
        with pytest.raises(SystemExit):
            main([*command, "killed"])
    done = next(batches)
    with monkeypatch.context() as patch:
        patch.setattr(few_shot, "compute_pair_loss", kill)
        main([*command, "killed"])
    steps = json.loads((place / "whole/history.jsonl").read_text().splitlines()[-1])["step"]
    assert next(batches) - done < steps
    weights = [digest_file(place / name / "model.safetensors") for name in ("whole", "killed")]
    assert weights[0] == weights[1]


def test_pairs_are_learnt_in_sixteen_bits(place: Path) -> None:
    encoder = write_encoder(place)
    write_rows(place / "a.jsonl", "classification")
    few = ["--set", "training.few_shot=true", "--epochs", "3", "--lr", "0.5"]
    few += ["--set", "training.optimizer.name=sgd"]
    losses = []
    for precision in ("null", "float16"):
        own = ["--set", f"training.precision={precision}", "-o", precision]
        main(["train", "a.jsonl", "--init", str(encoder), *few, *own])
        lines = (place / precision / "history.jsonl").read_text().splitlines()
        events = [json.loads(line) for line in lines]
        losses.append([event["loss"] for event in events if event["event"] == "train"])
    assert losses[1] == pytest.approx(losses[0], abs=0.01)
    assert losses[0][-1] < losses[0][0] - 0.05


def test_what_few_shot_training_cannot_use_is_an_error(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tsv(place / "a.tsv", rows=40)
    few = ["--set", "training.few_shot=true"]
    share = ["--set", "training.train_share=0.04"]
    assert "found one label, expected two or more" in fail(capsys, "train", "a.tsv", *few, *share)
    hidden = ["--set", "heads.label.hidden_dims=[4]"]
    assert "without hidden_dims" in fail(capsys, "train", "a.tsv", *few, *hidden)
    parts = ["--set", "training.shards=2"]
    assert "found shards with few_shot" in fail(capsys, "train", "a.tsv", *few, *parts)
    often = ["--set", "training.validations_per_epoch=2"]
    assert "found validations_per_epoch" in fail(capsys, "train", "a.tsv", *few, *often)
    pruned = ["--set", 'training.pruning={"share": 0.5}', "--set", "training.kept_epoch=last"]
    pruned += ["--set", "training.patience=null"]
    assert "found pruning" in fail(capsys, "train", "a.tsv", *few, *pruned)
    focal = ["--set", 'heads.label.loss={"name": "focal"}']
    assert "heads.label: found loss with few_shot" in fail(capsys, "train", "a.tsv", *few, *focal)
    still = ["--set", 'training.frozen=["word", "lstm"]']
    assert "found only frozen weights below" in fail(capsys, "train", "a.tsv", *few, *still)
    single = ["--set", "training.batch_size=1"]
    assert "batch_size: found 1" in fail(capsys, "train", "a.tsv", *few, *single)


@pytest.mark.slow
def test_a_search_tries_few_shot_training(place: Path) -> None:
    """With and without it, the same values end with other scores."""
    encoder = write_encoder(place)
    write_rows(place / "a.jsonl", "classification")
    main(["train", "a.jsonl", "--init", str(encoder), "--epochs", "0", "-o", "out"])
    values = {"training.few_shot": {"choices": [False, True]}}
    (place / "space.yaml").write_text(json.dumps({"values": values}))
    files = ["--train", "a.jsonl", "--init", str(encoder), "--epochs", "3", "--lr", "0.003"]
    main(["search", "out/model.json", *files, "--space", "space.yaml", "--trials", "4", "-o", "x"])
    trials = json.loads((place / "x/search.json").read_text())["trials"]
    scores = {item["values"]["training.few_shot"]: item["score"] for item in trials}
    assert len(scores) == 2
    assert scores[True] != scores[False]
