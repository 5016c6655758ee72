from functools import partial
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from torch import nn

from nlp_core.blocks.dialogue import HistoryEncoder
from nlp_core.blocks.embedding import WordEmbedding
from nlp_core.config.pruning import PruningConfig
from nlp_core.training.optimizer import list_matrices, prune_weights
from tests.tiny import make_recipe
from tests.tiny_training import check_resume, make_cell, make_trainer, project

__all__ = ["project"]
PRUNED = {"pruning": {"share": 0.6}, "ema_decay": None, "kept_epoch": "last", "patience": None}


def test_zeros_grow_along_a_cubic() -> None:
    config = PruningConfig(share=0.8, start=0.2, end=0.6)
    found = [config.at(done) for done in (0.1, 0.2, 0.4, 0.6, 1.0)]
    assert found == pytest.approx([0.0, 0.0, 0.8 * (1 - 0.5**3), 0.8, 0.8])


def test_the_smallest_weights_of_each_matrix_become_zero() -> None:
    layer, still = nn.Linear(2, 2), nn.Linear(2, 2)
    still.weight.requires_grad_(False)
    model = nn.ModuleList([layer, still, nn.Embedding(3, 2), WordEmbedding(3, dim=2)])
    before = {name: item.clone() for name, item in model.state_dict().items()}
    layer.weight.data = torch.tensor([[0.5, -0.1], [-2.0, 0.2]])
    assert [item is layer.weight for item in list_matrices(model)] == [True]
    prune_weights(model, PruningConfig(share=0.5, end=0.5), 1.0)
    assert layer.weight.tolist() == [[0.5, 0.0], [-2.0, 0.0]]
    prune_weights(model, None, 1.0)
    found = model.state_dict()
    assert [name for name in before if not found[name].equal(before[name])] == ["0.weight"]


def test_word_vectors_of_a_history_are_not_pruned() -> None:
    block = HistoryEncoder(9, dim=2, hidden_dim=2)
    names = {id(item): name for name, item in block.named_parameters()}
    found = [names[id(item)] for item in list_matrices(block)]
    assert found == [
        "score.weight",
        *(f"lstm.forward_lstm.weight_{name}_l0" for name in ("ih", "hh")),
    ]


def test_a_trained_model_has_its_zeros(project: Path) -> None:
    trainer = make_trainer(make_cell(project, "classification", epochs=3, **PRUNED), project / "x")
    trainer.run()
    matrices = [*list_matrices(trainer.model)]
    assert matrices
    for weight in matrices:
        assert int((weight == 0).sum()) == int(0.6 * weight.numel())


def test_a_killed_run_ends_as_an_undisturbed_one(project: Path) -> None:
    cell = make_cell(project, "classification", epochs=2, **PRUNED)
    check_resume(partial(make_trainer, cell), project, 7)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ema_decay": 0.9}, "found pruning with ema_decay"),
        ({"kept_epoch": None}, "found pruning with the best epoch kept"),
        ({"pruning": {"share": 0.5, "start": 0.9}}, "expected a later end"),
    ],
)
def test_what_loses_zeros_is_an_error(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        make_recipe(**(PRUNED | changes))
