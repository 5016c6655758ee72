"""A recipe: how a model is trained, how tasks take turns, what a student learns from a teacher."""

from collections.abc import Collection
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from nlp_core.config.adversarial import AdversarialConfig
from nlp_core.config.augmentation import AugmentationConfig, CutoffConfig, MixupConfig
from nlp_core.config.base import (
    ClosedModel,
    Count,
    Distinct,
    Name,
    NonNegative,
    Part,
    Positive,
    Probability,
    Share,
    Text,
    Whole,
)
from nlp_core.config.optimizer import SCHEDULE_FREE, OptimizerConfig, SwaConfig
from nlp_core.config.pruning import PruningConfig
from nlp_core.config.schedule import (
    BatchGrowthConfig,
    ConstantSchedule,
    Schedule,
    WarmupConstantSchedule,
)


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


class MatchingConfig(ClosedModel):
    """What the layers of a student's encoder learn from those of its teacher's.

    Layers are counted from 1, the first transformer layer; 0 are the embeddings.
    """

    layer: Name
    """The layer of the student's model file whose block is pretrained_encoder."""
    teacher_layer: Name | None = None
    """That of the teacher's model file; null: of the same name."""
    hidden: dict[Whole, Whole] = Field(default_factory=dict)
    """The student's layers whose hidden states learn, each with the teacher's layer."""
    attention: dict[Count, Count] = Field(default_factory=dict)
    """The student's layers whose attention learns, each with the teacher's layer."""
    hidden_weight: NonNegative = 1.0
    """Factor on the squared difference of the hidden states."""
    attention_weight: NonNegative = 1.0
    """Factor on the divergence of the attention."""

    @model_validator(mode="after")
    def _check_maps(self) -> "MatchingConfig":
        if not self.hidden and not self.attention:
            raise ValueError(
                "found no layer in hidden or attention, expected at least one, such as "
                "hidden: {3: 6}; or remove matching."
            )
        return self


class ObjectiveConfig(ClosedModel):
    """What all objectives share: how much the soft labels count, and whether layers learn too.

    loss = (1 - weight) hard + weight soft, a mean over the examples; an example without a label,
    and a task without a teacher, has only the other term.
    """

    weight: Probability
    """Share of the soft labels in the loss: 0 is training without a teacher, 1 without labels;
    matching adds to it."""
    task_weights: dict[Name, Probability] | None = None
    """The weights of some tasks of a group; all others: weight."""
    matching: MatchingConfig | None = None

    def find_weight(self, task: str) -> float:
        """Return the share of the soft labels in the loss of a task."""
        return (self.task_weights or {}).get(task, self.weight)


class MseScoresConfig(ObjectiveConfig):
    """Mean squared difference of the probabilities, over examples and labels.

    Source: Gong et al. 2019 (NeuronBlocks), its knowledge distillation; Liu et al. 2019 (multi-task
        distillation) takes the mean probability of several teachers.
    """

    name: Literal["mse_scores"]


class MseLogitsConfig(ObjectiveConfig):
    """Mean squared difference of the logits, over examples and labels.

    Source: Ba and Caruana 2014 (do deep nets really need to be deep), equation 1, which sums over
        the labels and has a factor of a half.
    """

    name: Literal["mse_logits"]


class KlConfig(ObjectiveConfig):
    """T^2 KL(teacher || student), of distributions softened by a temperature T.

    Source: Hinton et al. 2015 (distilling the knowledge in a neural network), section 2.
    """

    name: Literal["kl"]
    temperature: Annotated[float, Field(ge=1)]
    """T, what the logits of both are divided by, at least 1."""


DistillationConfig = Annotated[
    MseScoresConfig | MseLogitsConfig | KlConfig, Field(discriminator="name")
]


NumShards = Annotated[int, Field(ge=2)]
Precision = Literal["bfloat16", "float16"]
Frozen = Annotated[list[Text], Field(min_length=1), Distinct]


class BucketsConfig(ClosedModel):
    """Buckets that divide the range of lengths; a batch has examples of one bucket."""

    widths: Literal["equal", "linear", "exponential"]
    """How wide the buckets are, shortest texts first: all the same, 1 to 2 to 3 ..., or each 1.1
    times as wide as the one before."""
    count: Count

    def list_widths(self) -> list[float]:
        """Return relative widths."""
        growth = {"equal": 0.0, "linear": 1.0}
        if self.widths == "exponential":
            return [1.1**idx for idx in range(self.count)]
        return [1.0 + growth[self.widths] * idx for idx in range(self.count)]


class RecipeConfig(ClosedModel):
    source: str
    """Where the values come from: the paper, or tuned by us on the development split."""
    optimizer: OptimizerConfig
    schedule: Schedule
    batch_size: Count
    """Examples per step; whole questions where the head compares candidates."""
    epochs: Whole
    """Passes over the training split; 0: the model is measured as it starts."""
    validations_per_epoch: Count = 1
    """How often per epoch the selecting metric is measured and a checkpoint kept."""
    patience: Count | None = None
    """Validations without a better score before training stops; null: never."""
    kept_epoch: Literal["last", "last_best"] | None = None
    """What the honest selection keeps. last: the last weights, for a selecting split too small to
    distinguish epochs; last_best: of those with the best score on it the last, which have learned
    longest; null: the first of them."""
    clip_norm: Positive | None = None
    """Largest L2 norm of the whole gradient; null: not clipped."""
    ema_decay: Share | None = None
    """Decay per step of the averaged weights that are evaluated and kept; null: none."""
    swa: SwaConfig | None = None
    """A plain mean of weights that is evaluated and kept; null: none."""
    resample: Literal["bootstrap"] | None = None
    """bootstrap: each seed trains on its own draw, with replacement, of as many examples as the
    training split has (of whole questions where the head compares candidates), for a bag of models.
    null: on the split itself."""
    bucket_batches: Whole = 50
    """Batches whose examples are sorted by length together; 0: a plain shuffle."""
    buckets: BucketsConfig | None = None
    """Buckets of lengths, in place of bucket_batches; null: bucket_batches counts."""
    batch_tokens: Count | None = None
    """Most tokens of a step, padding included; batch_size is then the most examples. A longer
    example is a batch of its own. null: no limit."""
    pad_to_multiple: Annotated[int, Field(ge=2)] | None = None
    """Multiple that the tokens of a training batch are padded to, such as 8 for the matrix units of
    a GPU; windows of an encoder do not pass its max_length, and those of a corpus stay. null: to
    the longest example."""
    batch_growth: BatchGrowthConfig | None = None
    """How batches grow over the epochs, those of task_batch_sizes by the same factor; null: they
    stay."""
    accumulate: Count | None = None
    """Parts that a batch is computed in, to save memory; the update is that of the whole batch.
    null: one."""
    shards: NumShards | None = None
    """Shards that a batch is computed in, each with its own random numbers, so that any number of
    processes up to this one gives the same bytes. null: more processes change the last bits."""
    precision: Precision | None = None
    """Number format of most arithmetic; weights stay float32. float16 scales the loss and skips an
    update whose gradients overflow. null: float32."""
    frozen: Frozen | None = None
    """Weights that are not trained: patterns of their names, such as `encoder` for a layer,
    `encoder.*.layer.[0-5].*` for a part of it and `heads.out`. Their dropout stays on, and their
    batch normalisation keeps its statistics. null: none."""
    pruning: PruningConfig | None = None
    """Weights that become zero; null: none."""
    mixing: Mixing | None = None
    """null: there is one task."""
    task_weights: dict[Name, Positive] | None = None
    """Factors on the losses of some tasks of a group; 1 for all others."""
    task_batch_sizes: dict[Name, Count] | None = None
    """Batch sizes of some tasks of a group; all others: batch_size."""
    task_lr_scales: dict[Name, Positive] | None = None
    """Factors on the learning rate of some tasks of a group; all others: 1."""
    adversarial: AdversarialConfig | None = None
    augmentation: AugmentationConfig | None = None
    """null: only the texts of train, as they are."""
    distillation: DistillationConfig | None = None
    """null: the data have no soft labels."""
    train_share: Part | None = None
    """Share of each task's train that is trained on, drawn with the run's seed: a smaller share is
    a part of a larger one. null: all."""

    @model_validator(mode="after")
    def _check_patience(self) -> "RecipeConfig":
        if self.kept_epoch == "last" and self.patience:
            raise ValueError(
                "found kept_epoch: last with a patience, which waits for a better score; set one "
                "to null."
            )
        return self

    @model_validator(mode="after")
    def _check_examples(self) -> "RecipeConfig":
        if self.distillation and self.pad_to_multiple:
            raise ValueError(
                "found pad_to_multiple with a distillation, whose soft labels are padded to the "
                "longest example; set one to null."
            )
        for key in ("train_share", "augmentation"):
            if self.distillation and getattr(self, key):
                raise ValueError(
                    f"found {key} with a distillation, whose soft labels are of train as it is; "
                    "set one to null."
                )
        if self.adversarial and isinstance(self.augmentation, CutoffConfig | MixupConfig):
            raise ValueError(
                f"found adversarial with the augmentation {self.augmentation.name}, which each "
                "change what a step trains on; set one to null."
            )
        return self

    @model_validator(mode="after")
    def _check_parts(self) -> "RecipeConfig":
        check_parts(self.shards, self.accumulate)
        return self

    @model_validator(mode="after")
    def _check_growth(self) -> "RecipeConfig":
        if self.batch_growth and self.batch_growth.last < self.batch_size:
            raise ValueError(
                f"batch_growth.last: found {self.batch_growth.last}, expected at least "
                f"{self.batch_size}, the batch_size that batches grow from."
            )
        return self

    @model_validator(mode="after")
    def _check_average(self) -> "RecipeConfig":
        check_schedule(self.optimizer, self.schedule)
        found = [name for name in ("ema_decay", "swa") if getattr(self, name)]
        found += [SCHEDULE_FREE] if self.optimizer.name == SCHEDULE_FREE else []
        if len(found) > 1:
            raise ValueError(
                f"found {' and '.join(found)}, expected one of them, since each averages the "
                "weights."
            )
        if self.pruning and (found or self.kept_epoch != "last"):
            raise ValueError(
                f"found pruning with {found[0] if found else 'the best epoch kept'}, whose weights "
                "have fewer zeros; set ema_decay and swa to null, and kept_epoch to last."
            )
        return self

    def describe(self) -> dict[str, Any]:  # Any: JSON holds anything
        """Return the recipe as plain data, without its source: a trained cell's key is its digest.

        Fields that are null are left out, except the oldest ones: so a new field that is null
        leaves the keys of trained cells as they are.
        """
        values = self.model_dump(mode="json", exclude={"source"})
        values["optimizer"] = drop_null(values["optimizer"])
        if values["distillation"] is not None:
            values["distillation"] = drop_null(values["distillation"], keep=["task_weights"])
        return drop_null(values, keep=["clip_norm", "ema_decay", "max_steps", "patience"])


def check_schedule(optimizer: OptimizerConfig, schedule: Schedule) -> None:
    """Raise ValueError unless a schedule fits an optimiser."""
    is_level = isinstance(schedule, ConstantSchedule | WarmupConstantSchedule)
    if optimizer.name == SCHEDULE_FREE and not is_level:
        raise ValueError(
            f"schedule: found {schedule.name} with {SCHEDULE_FREE}, whose average takes the place "
            "of a falling learning rate, expected constant or warmup_constant."
        )
    lowest = getattr(schedule, "min_lr", 0.0)
    if lowest > optimizer.lr:
        raise ValueError(
            f"schedule.min_lr: found {lowest}, expected at most {optimizer.lr}, the optimizer's lr."
        )


def check_parts(shards: int | None, accumulate: int | None) -> None:
    """Raise ValueError if a batch is computed in both sorts of parts."""
    if shards and accumulate:
        raise ValueError(
            f"found shards: {shards} with accumulate: {accumulate}, which each compute a batch in "
            "parts; set accumulate to null, and shards to more if memory is short."
        )


def drop_null(values: dict[str, Any], keep: Collection[str] = ()) -> dict[str, Any]:  # Any: JSON
    """Return the values that are not null; those of `keep` stay even if they are."""
    return {key: value for key, value in values.items() if value is not None or key in keep}
