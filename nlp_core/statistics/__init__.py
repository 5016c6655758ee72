"""Intervals of scores and tests of differences, over seeds and examples together."""

from nlp_core.statistics.build import build_score, list_terms, score_terms
from nlp_core.statistics.resampling import (
    CONFIDENCE,
    LEVEL,
    Interval,
    Pair,
    Resamples,
    add_variances,
    correct_holm,
    find_p_value,
    measure_spread,
    name_groups,
    resample,
    swap_examples,
)
from nlp_core.statistics.score import (
    AreaScore,
    PearsonScore,
    RankScore,
    SumScore,
    UnpairedScore,
    WeightedScore,
)
from nlp_core.statistics.summands import POINTS, find_summing
