"""Numbers of any size: the center and the scale of the head that predicts them."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from nlp_core.cli import main
from nlp_core.errors import ConfigError
from nlp_core.heads.sentence import RegressionHead
from nlp_core.prediction.predictor import Predictor
from nlp_core.prediction.trained_model import TrainedModel
from reglue_runtime import load
from tests.user_files import QUICK

PRICES = {"room": 40_000.0, "flat": 150_000.0, "house": 400_000.0}


@pytest.fixture
def prices(place: Path) -> Path:
    """A file of texts with numbers far from 0."""
    rows = [
        f"{word} {number % 7}\t{price + number}"
        for number in range(20)
        for word, price in PRICES.items()
    ]
    path = place / "prices.tsv"
    path.write_text("\n".join(["text\tprice", *rows]) + "\n")
    main(["new", "regression", "--train", "prices.tsv", "-o", "m.json"])
    return path


def read_head(folder: Path) -> dict[str, Any]:
    (head,) = json.loads((folder / "model.json").read_text())["heads"].values()
    return {name: head[name] for name in ("center", "scale") if name in head}


def test_numbers_far_from_0_are_predicted_in_their_own_units(prices: Path) -> None:
    main(["train", "m.json", "--train", "prices.tsv", *QUICK, "--epochs", "30", "-o", "out"])
    found = [item.prediction for item in Predictor(TrainedModel.open("out")).predict([*PRICES])]
    assert found == pytest.approx([*PRICES.values()], abs=60_000)
    metrics = json.loads((prices.parent / "out/metrics.json").read_text())["metrics"]
    (split,) = metrics.values()
    assert {*split} == {"pearson", "spearman", "rmse"}
    assert split["rmse"] < 60_000
    main(["export", "out", "--data", "prices.tsv", "--to", "bundle"])
    again = [item["score"] for item in load("bundle").predict([*PRICES])]
    assert again == pytest.approx(found, rel=1e-5)


def test_a_head_that_says_its_center_keeps_it(prices: Path) -> None:
    once = ["train", "m.json", "--train", "prices.tsv", *QUICK, "--epochs", "1"]
    main([*once, "-o", "measured"])
    measured = read_head(prices.parent / "measured")
    assert measured["center"] == pytest.approx(196_674, rel=0.2)
    assert measured["scale"] == pytest.approx(150_600, rel=0.2)
    main([*once, "--set", "heads.label.center=5", "-o", "said"])
    assert read_head(prices.parent / "said") == {"center": 5}
    main([*once, "--init", "said", "-o", "next"])
    assert read_head(prices.parent / "next") == {"center": 5}


def test_the_error_is_measured_in_steps_of_the_scale() -> None:
    head = RegressionHead(4, center=100.0, scale=10.0)
    plain = RegressionHead(4)
    plain.load_state_dict(head.state_dict())
    x_BD = torch.randn(3, 4)
    value_B = plain(x_BD)
    torch.testing.assert_close(head(x_BD), 100 + 10 * value_B)
    target_B = torch.tensor([90.0, 100.0, 130.0])
    expected = ((value_B - (target_B - 100) / 10) ** 2).mean()
    torch.testing.assert_close(head.loss(head(x_BD), target_B), expected)
    torch.testing.assert_close(head.outputs(head(x_BD)), value_B)
    with pytest.raises(ConfigError, match="with output sigmoid, which has low and high instead"):
        RegressionHead(4, output="sigmoid", scale=2.0)
