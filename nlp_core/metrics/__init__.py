"""Metrics of each kind of task, in points (0 to 100)."""

from nlp_core.metrics.base import METRICS, Predictions, check_metrics
from nlp_core.metrics.measurement import measure

__all__ = ["METRICS", "Predictions", "check_metrics", "measure"]
