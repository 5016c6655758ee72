"""The recipes of params.yaml that are a paper's, beside what the papers say."""

from pathlib import Path

import pytest

from nlp_core.config.params import read_params
from nlp_core.training.optimizer import LearningRate

RECIPES = read_params(Path(__file__).parent.parent / "params.yaml").recipes


def decay(peak: float, gamma: float, start: int, floor: float, epoch: int) -> float:
    """Return the rate of an epoch, counted from 0, that falls after each one from `start` on."""
    return max(peak * gamma ** max(epoch - start + 1, 0), floor)


@pytest.mark.parametrize(
    ("name", "peak", "gamma", "start", "floor", "summed", "batch", "epochs"),
    [
        ("conll2003_paper", 0.015, 0.95, 1, 1e-5, 10, 10, 100),
        ("conll2003_paper_words", 0.015, 0.95, 1, 1e-5, 10, 10, 50),
        ("conll2003_paper_wcnn", 0.005, 0.95, 1, 1e-5, 10, 10, 100),
        ("glue_paper", 0.001, 0.95, 1, 1e-4, 1, 128, 30),
        ("glue_paper_qqp", 0.001, 0.9, 3, 1e-4, 1, 128, 30),
        ("glue_paper_stsb", 0.001, 0.95, 10, 1e-5, 1, 128, 100),
        ("wikiqa_paper_cnn", 0.001, 1.0, 1, 0, 1, 20, 10),
        ("wikiqa_paper_bilstm", 0.001, 0.95, 3, 1e-4, 1, 30, 30),
        ("wikiqa_paper_matchattn", 0.001, 0.95, 3, 1e-4, 1, 128, 20),
        ("wikiqa_paper_arc", 0.001, 0.9, 20, 5e-5, 1, 64, 10),
        ("wikiqa_paper_matchpyramid", 0.001, 0.95, 3, 0, 1, 30, 20),
        ("wikiqa_paper_mvlstm", 0.001, 0.9, 3, 5e-5, 1, 64, 10),
        ("atis_paper", 0.001, 1.0, 1, 0, 1, 32, 20),
    ],
)
def test_the_rate_of_each_epoch_is_the_published_one(
    name: str,
    peak: float,
    gamma: float,
    start: int,
    floor: float,
    summed: int,
    batch: int,
    epochs: int,
) -> None:
    recipe = RECIPES[name]
    rates = LearningRate(recipe.schedule, recipe.optimizer.lr, steps_per_epoch=7, epochs=epochs)
    found = [rates.at(7 * epoch + 6) for epoch in range(epochs)]
    expected = [summed * decay(peak, gamma, start, floor, epoch) for epoch in range(epochs)]
    assert found == pytest.approx(expected)
    assert (recipe.batch_size, recipe.epochs) == (batch, epochs)
    assert recipe.clip_norm is None
    assert recipe.ema_decay is None


@pytest.mark.parametrize("name", ["mtdnn_bert", "mtdnn_bert_mtl", "mtdnn_bert_adv"])
def test_bert_is_tuned_as_by_mt_dnn(name: str) -> None:
    recipe = RECIPES[name]
    assert recipe.optimizer.name == "adamax"
    assert recipe.optimizer.lr == 5e-5
    assert (recipe.batch_size, recipe.epochs, recipe.clip_norm) == (32, 5, 1.0)
    assert (recipe.mixing is not None) == name.endswith("_mtl")
    assert (recipe.adversarial is not None) == name.endswith("_adv")
