"""The closed model of a table of times: an entry of latency_tables in params.yaml."""

from typing import Annotated

from pydantic import Field

from nlp_core.config.base import ClosedModel
from nlp_core.config.name import Name
from nlp_core.config.number import Count

EAGER = "eager"
TEACHER = "teacher"
"""Names of the times of a model in torch, and of a student's teacher; no bundle is named so."""


class LatencyTableConfig(ClosedModel):
    """What is timed, and how often."""

    exports: Annotated[list[Name], Field(min_length=1)]
    """Keys of exports: the bundles, each beside the trained model that it was made of."""
    runs: Count
    """How often all is timed anew; the report has mean and spread over these."""
    sentences: Count
    """How many are timed one by one in a run."""
    batches: Count
    """How many batches of 32 are timed in a run."""
    threads: Count
    """Of each model."""
    teachers: dict[Name, Name] = Field(default_factory=dict)
    """For a student among the exports, the export of its teacher, whose float32 bundle is timed in
    turn with the student's on the same sentences."""
    compiled: bool = False
    """Whether the trained model, compiled by torch, is timed too."""
