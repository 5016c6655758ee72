"""Schedules of the learning rate and of the batch size, by name."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from nlp_core.config.base import ClosedModel, Count, NonNegative, Part, Positive, Share, Whole


class ConstantSchedule(ClosedModel):
    name: Literal["constant"]


class _WarmupSchedule(ClosedModel):
    warmup: Share
    """Share of all steps in which the learning rate rises from 0."""


class WarmupLinearSchedule(_WarmupSchedule):
    """A linear rise from 0, then a linear fall to 0 at the last step."""

    name: Literal["warmup_linear"]


class WarmupConstantSchedule(_WarmupSchedule):
    """A linear rise from 0, then the same learning rate."""

    name: Literal["warmup_constant"]


class WarmupCosineSchedule(_WarmupSchedule):
    """A linear rise from 0, then a fall to 0 along half a cosine wave.

    Source: Loshchilov and Hutter 2017 (SGDR), equation 5, without restarts.
    """

    name: Literal["warmup_cosine"]


class WarmupPolynomialSchedule(_WarmupSchedule):
    """A linear rise from 0, then a fall to min_lr along a power of the share of steps left."""

    name: Literal["warmup_polynomial"]
    power: Positive
    """Exponent: 1 falls along a line, 2 fast at first."""
    min_lr: NonNegative = 0.0
    """Learning rate after the last step."""


class WarmupInverseSqrtSchedule(ClosedModel):
    """A linear rise from 0, then a fall with one over the square root of the step.

    Source: Vaswani et al. 2017 (attention is all you need), equation 3.
    """

    name: Literal["warmup_inverse_sqrt"]
    warmup: Part
    """Share of all steps in which the learning rate rises from 0. At a later step it is the peak
    times sqrt(warm-up steps / step)."""


class ExponentialSchedule(ClosedModel):
    """A constant factor after every epoch."""

    name: Literal["exponential"]
    gamma: Annotated[float, Field(gt=0, le=1)]
    start_epoch: Count = 1
    """First epoch (from 1) after which gamma applies."""
    min_lr: NonNegative = 0.0


class CyclicSchedule(ClosedModel):
    """Linear rises and falls between min_lr and the optimiser's lr, over and over.

    Source: Smith 2017 (cyclical learning rates for training neural networks), section 3.
    """

    name: Literal["cyclic"]
    min_lr: NonNegative
    """Lowest learning rate, where each cycle begins."""
    rise: Count
    """Steps of a rise."""
    fall: Count | None = None
    """Steps of a fall; null: as many as of a rise."""
    mode: Literal["triangular", "triangular2", "exp_range"] = "triangular"
    """What happens to the height of the cycles: nothing, each has half that of the one before, or
    it falls by gamma in each step."""
    gamma: Annotated[float, Field(gt=0, le=1)] | None = None
    """Factor per step on the height, of exp_range only."""

    @model_validator(mode="after")
    def _check_gamma(self) -> "CyclicSchedule":
        if (self.gamma is not None) != (self.mode == "exp_range"):
            raise ValueError(
                f"found mode {self.mode} and gamma {self.gamma}; exp_range needs a gamma, and the "
                "other modes have none."
            )
        return self


class OneCycleSchedule(ClosedModel):
    """One rise to the optimiser's lr, then one fall to far below the first lr.

    Source: Smith and Topin 2019 (super-convergence), section 3.
    """

    name: Literal["one_cycle"]
    rise: Part = 0.3
    """Share of all steps of the rise."""
    shape: Literal["cos", "linear"] = "cos"
    """Form of rise and fall: half a cosine wave, or a line."""
    start_factor: Annotated[float, Field(gt=1)] = 25.0
    """What lr is divided by at the first step."""
    end_factor: Annotated[float, Field(gt=1)] = 1.0e4
    """What the learning rate of the first step is divided by at the last one."""


class PlateauSchedule(ClosedModel):
    """A factor whenever the selecting score has not risen for some validations."""

    name: Literal["plateau"]
    factor: Part
    """Factor on the learning rate."""
    patience: Whole
    """Validations without a better score that change nothing; the next one applies the factor."""
    threshold: NonNegative = 0.0
    """Least gain of a better score, in its own unit."""
    cooldown: Whole = 0
    """Validations after a factor that do not count."""
    min_lr: NonNegative = 0.0
    """Lowest learning rate."""


Schedule = Annotated[
    ConstantSchedule
    | WarmupConstantSchedule
    | WarmupLinearSchedule
    | WarmupCosineSchedule
    | WarmupPolynomialSchedule
    | WarmupInverseSqrtSchedule
    | ExponentialSchedule
    | CyclicSchedule
    | OneCycleSchedule
    | PlateauSchedule,
    Field(discriminator="name"),
]


class BatchGrowthConfig(ClosedModel):
    """Batches that grow from batch_size over the epochs.

    Source: Smith et al. 2018 (don't decay the learning rate, increase the batch size).
    """

    name: Literal["linear", "exponential"]
    """Whether each epoch adds the same number of examples, or multiplies by the same factor."""
    last: Count
    """Examples per step in the end."""
    epochs: Count
    """Epochs until then."""

    def find_factor(self, start: int, epoch: int) -> float:
        """Return what `start`, the batch size of the first epoch, is multiplied by in an epoch."""
        done = min((epoch - 1) / self.epochs, 1.0)
        if self.name == "linear":
            return 1 + (self.last / start - 1) * done
        return float((self.last / start) ** done)
