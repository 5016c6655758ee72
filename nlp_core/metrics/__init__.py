"""Metrics of each kind of task, in points (0 to 100) where they have no unit of their own."""

from nlp_core.metrics.base import (
    Predictions,
    check_metrics,
    check_selecting_metric,
    has_metric,
    is_better,
    is_lower_better,
)
from nlp_core.metrics.measurement import measure

__all__ = [
    "Predictions",
    "check_metrics",
    "check_selecting_metric",
    "has_metric",
    "is_better",
    "is_lower_better",
    "measure",
]
