"""The closed model of `timing` in grid/<table>.yaml: how a table of exports is timed."""

from nlp_core.config.base import ClosedModel
from nlp_core.config.number import Count

EAGER = "eager"
TEACHER = "teacher"
"""Names of the times of a model in torch, and of a student's teacher; no bundle is named so."""


class TimingConfig(ClosedModel):
    """How bundles are timed, each with the trained model that it was made from."""

    runs: Count
    """How often everything is timed; the report has mean and spread over these."""
    sentences: Count
    """How many are timed one by one in a run."""
    batches: Count
    """How many batches of 32 are timed in a run."""
    threads: Count
    """Of each model."""
    compiled: bool = False
    """Whether the trained model, compiled by torch, is timed too."""
