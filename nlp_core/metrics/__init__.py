"""Metrics of each kind of task, registered with their functions, directions and units."""

from nlp_core.metrics.base import (
    HONEST,
    METRICS,
    PAPER,
    Predictions,
    check_metrics,
    check_selecting_metric,
    find_direction,
    find_metric,
    has_metric,
    is_better,
    is_in_points,
    is_lower_better,
    measure,
    parse_metric,
    register,
)
from nlp_core.metrics.classification import (
    Area,
    Confusion,
    Decision,
    count_confusions,
    indicate_both,
)
from nlp_core.registry import import_modules

import_modules(__name__, __path__)
