"""Measure predictions by the metrics of their kind.

The module that computes a kind's metrics is loaded when it is first needed: scikit-learn and
seqeval take more than a second to import, and a training process should be at its first step by
then.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

from nlp_core.errors import DataError
from nlp_core.kinds import KINDS
from nlp_core.metrics.base import Predictions, parse_metric, scale

Metric = Callable[..., float]


def measure(kind: str, metrics: Sequence[str], predictions: Predictions) -> dict[str, float]:
    """Measure predictions by each of the named metrics.

    Args:
        kind: the task's kind.
        metrics: names of metrics, see `Kind.metrics`.
        predictions: at least one example.

    Returns:
        The value of each metric in points (100 times the usual scale) or in units of the task, see
        `nlp_core.metrics.base.IN_OWN_UNITS`; not rounded.

    Raises:
        ConfigError: the kind, a metric or its label is unknown.
        DataError: there is nothing to measure, or a metric is not defined on these examples.
    """
    calls = {name: parse_metric(kind, name, labels=predictions.labels) for name in metrics}
    _check_lengths(predictions)
    compute: Mapping[str, Metric] = import_module(KINDS.get(kind).metrics_module).COMPUTE
    return {
        name: scale(name, compute[call.pattern](predictions, *call.arguments))
        for name, call in calls.items()
    }


def _check_lengths(predictions: Predictions) -> None:
    size = len(predictions.target)
    assert len(predictions.prediction) == size, (len(predictions.prediction), size)
    for array in (predictions.score, predictions.group):
        assert array is None or len(array) == size, (len(array), size)
    if size == 0:
        raise DataError(
            "metrics: found no examples, expected at least one. Is the split empty, or a part of "
            "it without labels?"
        )
