"""The closed models of mixing: how often each task of a run over several has its turn."""

from typing import Annotated, Literal

from pydantic import Field

from nlp_core.config.base import ClosedModel
from nlp_core.config.name import Name

Exponent = Annotated[float, Field(ge=0, le=1)]


class ProportionalMixing(ClosedModel):
    """Every batch of every task once an epoch, in a random order."""

    name: Literal["proportional"]


class UniformMixing(ClosedModel):
    """The same number of batches of every task: small ones come again, large ones not whole."""

    name: Literal["uniform"]


class TemperatureMixing(ClosedModel):
    """Batches in proportion to the power of a task's size: n^alpha."""

    name: Literal["temperature"]
    alpha: Exponent
    """Exponent: 1 is proportional, 0 uniform."""


class AnnealedMixing(ClosedModel):
    """As temperature, with an exponent that falls from 1 in equal steps from epoch to epoch.

    Source: Stickland and Murray 2019 (PALs), annealed sampling; its last exponent is 0.2.
    """

    name: Literal["annealed"]
    last_alpha: Exponent
    """Exponent of the last epoch."""


class MainRatioMixing(ClosedModel):
    """All batches of one task, and for each of them so many of the others, at random.

    Source: Xu et al. 2019 (multi-task learning with sample re-weighting for reading comprehension).
    """

    name: Literal["main_ratio"]
    main: Name
    """The task that is trained whole in every epoch."""
    ratio: Annotated[float, Field(gt=0)]
    """Batches of the other tasks for each one of the main task; never more than they have."""


class SequentialMixing(ClosedModel):
    """In every epoch one task after the other, in the order in which they are named."""

    name: Literal["sequential"]


Mixing = Annotated[
    ProportionalMixing
    | UniformMixing
    | TemperatureMixing
    | AnnealedMixing
    | MainRatioMixing
    | SequentialMixing,
    Field(discriminator="name"),
]
