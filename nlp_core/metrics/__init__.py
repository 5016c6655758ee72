"""Metrics of each kind of task, registered with their functions, directions and units."""

# each registers its metrics
from nlp_core.metrics import (
    classification,
    intent_slots,
    language_model,
    ranking,
    regression,
    span,
    tagging,
)
from nlp_core.metrics.base import METRICS, Metric, Predictions, is_better, is_lower_better, register
from nlp_core.metrics.measurement import check_metrics, check_selecting_metric, has_metric, measure
