"""Metrics of each kind of task, registered with their functions, directions and units."""

import importlib
import pkgutil

from nlp_core.metrics.base import METRICS, Metric, Predictions, is_better, is_lower_better, register
from nlp_core.metrics.measurement import check_metrics, check_selecting_metric, has_metric, measure

for found in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{found.name}")  # registers its metrics
