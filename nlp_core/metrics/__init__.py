"""Metrics of each kind of task, registered with their functions, directions and units."""

from nlp_core.metrics import (  # noqa: F401  # each registers its metrics
    classification,
    intent_slots,
    language_model,
    ranking,
    regression,
    span,
    tagging,
)
from nlp_core.metrics.base import (
    METRICS,
    Metric,
    Predictions,
    is_better,
    is_lower_better,
    register,
)
from nlp_core.metrics.measurement import (
    check_metrics,
    check_selecting_metric,
    has_metric,
    measure,
)

__all__ = [
    "METRICS",
    "Metric",
    "Predictions",
    "check_metrics",
    "check_selecting_metric",
    "has_metric",
    "is_better",
    "is_lower_better",
    "measure",
    "register",
]
