"""Names of metrics with parameters, the direction of each, and what is refused."""

import pytest

from nlp_core.errors import ConfigError, DataError
from nlp_core.metrics import (
    METRICS,
    Predictions,
    check_metrics,
    check_selecting_metric,
    has_metric,
    is_better,
    is_lower_better,
    measure,
)
from nlp_core.metrics.base import find_metric, parse_metric

LABELS = ["b@d", "good"]


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("auc", ("auc", None, None)),
        ("auc@good", ("auc@LABEL", None, "good")),
        ("f1@b@d", ("f1@LABEL", None, "b@d")),
        ("recall_at_precision@0.9", ("recall_at_precision@PRECISION", 0.9, None)),
        ("recall_at_precision@1@b@d", ("recall_at_precision@PRECISION@LABEL", 1.0, "b@d")),
    ],
)
def test_a_name_is_taken_apart(name: str, parsed: tuple[str, float | None, str | None]) -> None:
    assert parse_metric("classification", name, labels=LABELS) == parsed
    check_metrics("classification", [name], labels=LABELS)


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("classification", "auc@god", r"m: auc@god: found the label 'god'.* Did you mean 'good'"),
        ("classification", "recall_at_precision", r"unknown metric 'recall_at_precision'"),
        ("classification", "recall_at_precision@", r"found the precision ''"),
        ("classification", "recall_at_precision@90", r"found the precision '90', expected .* 0\.9"),
        ("classification", "recall_at_precision@nan", r"found the precision 'nan'"),
        ("classification", "accuracy@good", r"unknown metric 'accuracy@good'"),
        ("multi_label", "auc", r"unknown metric 'auc' of the kind 'multi_label'"),
        ("multi_label", "accuracy", r"unknown metric 'accuracy'"),
        ("tagging", "auc@good", r"unknown metric 'auc@good' of the kind 'tagging'"),
        ("retrieval", "recall@0", r"found the depth '0', expected a whole number above 0"),
        ("retrieval", f"mrr@{'9' * 5000}", r"found the depth '9+', expected .* at most 9 digits"),
    ],
)
def test_a_name_that_is_none_is_refused(kind: str, name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_metrics(kind, [name], labels=LABELS, where="m")


@pytest.mark.parametrize(
    "name", ["rmse", "dev.mse", "task.test.mae", "dev.expected_calibration_error.paper"]
)
def test_less_of_an_error_is_better(name: str) -> None:
    assert is_lower_better(name)
    assert is_better(name, 1.0, 2.0)
    assert not is_better(name, 2.0, 2.0)
    assert not is_better(name, 3.0, 2.0)


@pytest.mark.parametrize(
    "name", ["f1", "dev.auc@mse", "test.recall_at_precision@0.9", "pearson", "size.test.f1"]
)
def test_more_of_a_score_is_better(name: str) -> None:
    assert not is_lower_better(name)
    assert is_better(name, 2.0, 1.0)
    assert not is_better(name, 2.0, 2.0)


def test_only_metrics_without_a_unit_are_in_points() -> None:
    own = {"mae", "mse", "perplexity", "rmse", "threshold_at_precision"}
    found = {
        name.partition("@")[0]
        for metrics in METRICS.values()
        for name, metric in metrics.items()
        if not metric.in_points
    }
    assert found == own


def test_direction_and_unit_of_a_name_are_those_of_every_kind() -> None:
    for metrics in METRICS.values():
        for name, metric in metrics.items():
            found = find_metric(name)
            assert found is not None
            assert found[1:] == metric[1:]


def test_no_epoch_is_chosen_by_what_is_neither_good_nor_bad() -> None:
    check_selecting_metric("rmse", where="x")
    with pytest.raises(ConfigError, match=r"manifest\.json: metrics: found 'threshold_at_prec"):
        check_selecting_metric("threshold_at_precision@0.9", where="manifest.json")


def test_area_of_numbers_takes_a_threshold() -> None:
    assert parse_metric("regression", "auc@0.5") == ("auc@THRESHOLD", 0.5, None)
    numbers = Predictions([], [0.0, 0.4, 0.5, 1.0], [0.1, 0.6, 0.3, 0.9])
    assert measure("regression", ["auc@0.5"], numbers) == {"auc@0.5": 75.0}
    with pytest.raises(
        ConfigError, match="auc@half: found the threshold 'half', expected a number"
    ):
        parse_metric("regression", "auc@half")
    with pytest.raises(DataError, match="found only examples not labelled 'at least 2'"):
        measure("regression", ["auc@2"], numbers)
    assert has_metric("regression", "auc@0.5")
    assert not has_metric("regression", "auc")
