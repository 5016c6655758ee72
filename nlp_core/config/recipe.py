"""The closed model of a recipe: how a model is trained."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from nlp_core.config.adversarial import AdversarialConfig
from nlp_core.config.base import ClosedModel
from nlp_core.config.distillation import DistillationConfig, ObjectiveConfig
from nlp_core.config.mixing import Mixing
from nlp_core.config.name import Name
from nlp_core.config.number import Count, NonNegative, Positive, Share

OptimizerName = Literal["sgd", "adam", "adamw", "adamax", "lamb"]


class OptimizerConfig(ClosedModel):
    """How a gradient moves the weights."""

    later_fields: ClassVar[frozenset[str]] = frozenset(
        {"encoder_lr_scale", "layer_decay", "decayed"}
    )
    """See RecipeConfig."""

    name: OptimizerName
    lr: Positive
    """Learning rate at its height."""
    momentum: Share = 0.0
    """Momentum of SGD; the others do not read it."""
    weight_decay: NonNegative = 0.0
    """Decay a step, relative to the learning rate for adamw and lamb, else as an L2 term."""
    embedding_lr_scale: Positive = 1.0
    """Factor on the learning rate of word embeddings."""
    encoder_lr_scale: Positive | None = None
    """Factor on the learning rate of a pretrained encoder, below weights that are new; null: 1."""
    layer_decay: Annotated[float, Field(gt=0, le=1)] | None = None
    """Factor on the learning rate of a pretrained encoder's last layer, its square on that of the
    one below, and so on down to its embeddings; null: none."""
    decayed: Literal["matrices"] | None = None
    """What weight_decay pulls to zero: matrices alone, or, with null, biases and the weights of
    normalisations as well."""

    @model_validator(mode="after")
    def _check_momentum(self) -> "OptimizerConfig":
        if self.momentum and self.name != "sgd":
            raise ValueError(f"found momentum with {self.name}; only sgd has a momentum.")
        return self


class ConstantSchedule(ClosedModel):
    """The same learning rate throughout."""

    name: Literal["constant"]


class WarmupLinearSchedule(ClosedModel):
    """A linear rise from 0, then a linear fall to 0 at the last step."""

    name: Literal["warmup_linear"]
    warmup: Share
    """Share of all steps that the rise takes."""


class WarmupConstantSchedule(ClosedModel):
    """A linear rise from 0, then the same learning rate."""

    name: Literal["warmup_constant"]
    warmup: Share
    """Share of all steps that the rise takes."""


class WarmupCosineSchedule(ClosedModel):
    """A linear rise from 0, then a fall to 0 along half a wave of the cosine.

    Source: Loshchilov and Hutter 2017 (SGDR), equation 5, without restarts.
    """

    name: Literal["warmup_cosine"]
    warmup: Share
    """Share of all steps that the rise takes."""


class ExponentialSchedule(ClosedModel):
    """A constant factor after every epoch."""

    name: Literal["exponential"]
    gamma: Annotated[float, Field(gt=0, le=1)]
    """Factor after each epoch."""
    start_epoch: Count = 1
    """First epoch (from 1) after which the factor applies."""
    min_lr: NonNegative = 0.0
    """Floor of the learning rate."""


Schedule = Annotated[
    ConstantSchedule
    | WarmupConstantSchedule
    | WarmupLinearSchedule
    | WarmupCosineSchedule
    | ExponentialSchedule,
    Field(discriminator="name"),
]


class RecipeConfig(ClosedModel):
    """How to train: optimiser, schedule, batches, epochs, averaging, stopping."""

    later_fields: ClassVar[frozenset[str]] = frozenset(
        {
            *("accumulate", "adversarial", "distillation", "kept_epoch", "mixing", "precision"),
            *("task_batch_sizes", "task_lr_scales", "task_weights"),
        }
    )
    """Fields that came when cells had been trained: left out of a description where null."""

    source: str
    """Where the values come from: the paper, or tuned by us on the development split."""
    optimizer: OptimizerConfig
    schedule: Schedule
    batch_size: Count
    """Examples a step; whole questions where the head compares their candidates."""
    epochs: Count
    """Passes over the training split."""
    validations_per_epoch: Count = 1
    """How often an epoch the selecting metric is measured and a checkpoint kept."""
    patience: Count | None = None
    """Validations without a better score before training stops; null: never."""
    kept_epoch: Literal["last"] | None = None
    """Which weights the honest way keeps: the last ones, whatever their score, for a selecting
    split too small to tell epochs apart; null: those with the best score on that split."""
    clip_norm: Positive | None = None
    """Largest L2 norm of the whole gradient; null: not clipped."""
    ema_decay: Share | None = None
    """Decay a step of the averaged weights that are evaluated and kept; null: none."""
    bucket_batches: Annotated[int, Field(ge=0)] = 50
    """Batches whose examples are sorted by length together; 0: no sorting, a plain shuffle."""
    accumulate: Count | None = None
    """Parts that the batch of a step is cut into, one after the other, to save memory; the update
    is that of the whole batch. null: one."""
    precision: Literal["bfloat16", "float16"] | None = None
    """Number format of most of a step's arithmetic; weights stay float32. With float16 the loss is
    scaled, and an update whose gradients overflow is left out. null: float32."""
    mixing: Mixing | None = None
    """How the tasks of a group take turns; null: there is one task."""
    task_weights: dict[Name, Positive] | None = None
    """Factors on the losses of some tasks of a group; null, and of all others: 1."""
    task_batch_sizes: dict[Name, Count] | None = None
    """Batch sizes of some tasks of a group; null, and of all others: batch_size."""
    task_lr_scales: dict[Name, Positive] | None = None
    """Factors on the learning rate in the steps of some tasks of a group; null, and of all others:
    1."""
    adversarial: AdversarialConfig | None = None
    """Training on perturbed word vectors; null: none."""
    distillation: DistillationConfig | None = None
    """What a student makes of the soft labels of its data; null: the data have none."""

    @model_validator(mode="after")
    def _check_patience(self) -> "RecipeConfig":
        if self.kept_epoch and self.patience:
            raise ValueError(
                "found kept_epoch: last with a patience, which awaits a better score; set one of "
                "them to null."
            )
        return self

    def describe(self) -> dict[str, Any]:  # Any: JSON holds anything
        """Return the recipe as plain data, without its source: a trained cell's key is its digest.

        A field that comes into this class later says so in `later_fields`, and is then no part of
        the description of a recipe that does not set it: keys of cells trained before stay.
        """
        values = self.model_dump(mode="json", exclude={"source"})
        values["optimizer"] = _drop_unset(values["optimizer"], OptimizerConfig.later_fields)
        if values["distillation"] is not None:
            later = ObjectiveConfig.later_fields
            values["distillation"] = _drop_unset(values["distillation"], later)
        return _drop_unset(values, self.later_fields)


def _drop_unset(values: dict[str, Any], later: frozenset[str]) -> dict[str, Any]:  # Any: JSON
    return {key: value for key, value in values.items() if key not in later or value is not None}
