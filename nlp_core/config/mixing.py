"""How often each task of a multi-task run gets a batch."""

from typing import Annotated, Literal

from pydantic import Field

from nlp_core.config.base import ClosedModel
from nlp_core.config.name import Name
from nlp_core.config.number import Positive, Probability


class ProportionalMixing(ClosedModel):
    """Every batch of every task once an epoch, in a random order."""

    name: Literal["proportional"]


class UniformMixing(ClosedModel):
    """Equally many batches of every task: small tasks repeat, large ones are cut."""

    name: Literal["uniform"]


class TemperatureMixing(ClosedModel):
    """Batches in proportion to the power of a task's size: n^alpha."""

    name: Literal["temperature"]
    alpha: Probability
    """Exponent: 1 is proportional, 0 uniform."""


class AnnealedMixing(ClosedModel):
    """As temperature, with an exponent that falls linearly from 1 over the epochs.

    Source: Stickland and Murray 2019 (PALs), annealed sampling; its last exponent is 0.2.
    """

    name: Literal["annealed"]
    last_alpha: Probability
    """Exponent of the last epoch."""


class MainRatioMixing(ClosedModel):
    """All batches of the main task, and a random part of the batches of the others.

    Source: Xu et al. 2019 (multi-task learning with sample re-weighting for reading comprehension).
    """

    name: Literal["main_ratio"]
    main: Name
    ratio: Positive
    """Batches of the other tasks per batch of the main task; at most all of them."""


class SequentialMixing(ClosedModel):
    """One task after the other in every epoch, in the order that the group lists them."""

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
