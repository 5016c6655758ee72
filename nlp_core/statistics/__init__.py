"""Intervals of scores and tests of differences, over seeds and examples together."""

from nlp_core.statistics.groups import Pair, correct_holm, name_groups
from nlp_core.statistics.resampling import (
    CONFIDENCE,
    Interval,
    Resamples,
    add_variances,
    find_p_value,
    measure_spread,
    resample,
    swap_examples,
)
from nlp_core.statistics.score import AreaScore, SumScore, WeightedScore, build_score
