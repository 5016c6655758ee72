"""The closed model of params.yaml: the grid, and everything that changes a number."""

from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from nlp_core.config.adversarial import AdversarialConfig
from nlp_core.config.base import ClosedModel, read_config
from nlp_core.config.export import ExportConfig
from nlp_core.config.mixing import MainRatioMixing, Mixing
from nlp_core.config.number import Count, NonNegative, Positive, Share
from nlp_core.config.pretraining import EncoderConfig
from nlp_core.errors import suggest

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]


class OptimizerConfig(ClosedModel):
    """How a gradient moves the weights."""

    later_fields: ClassVar[frozenset[str]] = frozenset({"layer_decay", "decayed"})
    """See RecipeConfig."""

    name: Literal["sgd", "adam", "adamw"]
    lr: Positive
    """Learning rate at its height."""
    momentum: Share = 0.0
    """Momentum of SGD; the others do not read it."""
    weight_decay: NonNegative = 0.0
    """Decay a step, relative to the learning rate for adamw, as an L2 term for the others."""
    embedding_lr_scale: Positive = 1.0
    """Factor on the learning rate of word embeddings."""
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
    ConstantSchedule | WarmupLinearSchedule | ExponentialSchedule, Field(discriminator="name")
]


class RecipeConfig(ClosedModel):
    """How to train: optimiser, schedule, batches, epochs, averaging, stopping."""

    later_fields: ClassVar[frozenset[str]] = frozenset(
        {"accumulate", "adversarial", "mixing", "precision", "task_batch_sizes", "task_weights"}
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
    clip_norm: Positive | None = None
    """Largest L2 norm of the whole gradient; null: not clipped."""
    ema_decay: Share | None = None
    """Decay a step of the averaged weights that are evaluated and kept; null: none."""
    bucket_batches: Annotated[int, Field(ge=0)] = 50
    """Batches whose examples are sorted by length together; 0: no sorting, a plain shuffle."""
    accumulate: Count | None = None
    """Parts that the batch of a step is cut into, one after the other, to save memory; the update
    is that of the whole batch. null: one."""
    precision: Literal["bfloat16"] | None = None
    """Number format of most of a step's arithmetic; weights stay float32. null: float32."""
    mixing: Mixing | None = None
    """How the tasks of a group take turns; null: there is one task."""
    task_weights: dict[Name, Positive] | None = None
    """Factors on the losses of some tasks of a group; null, and of all others: 1."""
    task_batch_sizes: dict[Name, Count] | None = None
    """Batch sizes of some tasks of a group; null, and of all others: batch_size."""
    adversarial: AdversarialConfig | None = None
    """Training on perturbed word vectors; null: none."""

    def describe(self) -> dict[str, Any]:  # Any: JSON holds anything
        """Return the recipe as plain data, which a trained cell's key is a digest of.

        A field that comes into this class later says so in `later_fields`, and is then no part of
        the description of a recipe that does not set it: keys of cells trained before stay.
        """
        values = self.model_dump(mode="json")
        values["optimizer"] = _drop_unset(values["optimizer"], OptimizerConfig.later_fields)
        return _drop_unset(values, self.later_fields)


def _drop_unset(values: dict[str, Any], later: frozenset[str]) -> dict[str, Any]:  # Any: JSON
    return {key: value for key, value in values.items() if key not in later or value is not None}


class ExperimentConfig(ClosedModel):
    """A cell: a model on a task, trained by a recipe, over seeds."""

    table: Name
    """The table that the cell belongs to."""
    model: Annotated[str, Field(pattern=r"^zoo/[a-z0-9_/]+\.json$")]
    """Path of the model file."""
    data: Name
    """The task: a name under datasets/ and data/processed/; or a group of tasks."""
    init: Annotated[str, Field(pattern=r"^(data/processed|artifacts)/[a-z0-9_/]+$")]
    """Folder of the vectors or the encoder that the model starts from."""
    recipe: Name
    """A key of recipes."""
    seeds: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
    """One run for each; none twice."""

    @model_validator(mode="after")
    def _check_seeds(self) -> "ExperimentConfig":
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"found seeds {self.seeds}; each seed may stand once.")
        return self


class Params(ClosedModel):
    """The whole of params.yaml."""

    numerics: Count
    """Raised when a change of code moves a number; every trained cell depends on it."""
    sources: Annotated[list[Name], Field(min_length=1)]
    """What the download stage fetches: names of files under datasets/."""
    tasks: Annotated[list[Name], Field(min_length=1)]
    """What the preprocess stage makes; each is also a source."""
    groups: dict[Name, Annotated[list[Name], Field(min_length=2)]] = Field(default_factory=dict)
    """Tasks that are trained together, by the name of their group."""
    tables: Annotated[list[Name], Field(min_length=1)]
    """The tables, each with a file under reports/published/."""
    encoders: dict[Name, EncoderConfig] = Field(default_factory=dict)
    """What the pretrain stage makes; none is in the tables above."""
    encoder_tables: list[Name] = Field(default_factory=list)
    """The tables of encoders, each of all of them; with a file under reports/published/."""
    exports: dict[Name, ExportConfig] = Field(default_factory=dict)
    """What the export stage makes bundles of."""
    recipes: dict[Name, RecipeConfig]
    experiments: dict[Name, ExperimentConfig]

    @model_validator(mode="after")
    def _check_references(self) -> "Params":
        for task in self.tasks:
            _check_known("tasks", "source", task, self.sources)
        for group, members in self.groups.items():
            for task in members:
                _check_known(f"groups.{group}", "task", task, self.tasks)
            if group in self.tasks:
                raise ValueError(f"groups.{group}: a task has this name; choose another one.")
        for cell, experiment in self.experiments.items():
            where = f"experiments.{cell}"
            _check_known(f"{where}.table", "table", experiment.table, self.tables)
            known = [*self.tasks, *self.groups]
            _check_known(f"{where}.data", "task or group", experiment.data, known)
            _check_known(f"{where}.recipe", "recipe", experiment.recipe, self.recipes)
            self._check_mixing(where, experiment)
            folder, _, name = experiment.init.rpartition("/")
            if folder == "data/processed":
                _check_known(f"{where}.init", "task", name, self.tasks)
            if folder == "artifacts/pretrain":
                _check_known(f"{where}.init", "encoder", name, self.encoders)
        return self

    @model_validator(mode="after")
    def _check_exports(self) -> "Params":
        for name, export in self.exports.items():
            table, cell = export.cell.split("/")[-2:]
            where = f"exports.{name}"
            _check_known(f"{where}.cell", "cell", cell, self.experiments)
            experiment = self.experiments[cell]
            if experiment.table != table:
                raise ValueError(
                    f"{where}.cell: found '{export.cell}'; that cell is of the table "
                    f"{experiment.table}."
                )
            seeds = [str(seed) for seed in experiment.seeds]
            _check_known(f"{where}.seed", "seed", str(export.seed), seeds)
        return self

    @model_validator(mode="after")
    def _check_encoders(self) -> "Params":
        for encoder, config in self.encoders.items():
            where = f"encoders.{encoder}"
            _check_known(f"{where}.data", "task", config.data, self.tasks)
            _check_known(f"{where}.measured_on", "task", config.measured_on, self.tasks)
            folder, _, name = config.init.rpartition("/")
            if folder == "data/processed":
                _check_known(f"{where}.init", "task", name, self.tasks)
            if folder == "artifacts/pretrain":
                others = [other for other in self.encoders if other != encoder]
                _check_known(f"{where}.init", "encoder", name, others)
        for table in self.encoder_tables:
            if table in self.tables:
                raise ValueError(f"encoder_tables: found '{table}', which is in tables as well.")
            if not self.encoders:
                raise ValueError(f"encoder_tables: found '{table}' and no encoders.")
        return self

    def list_tasks(self, data: str) -> list[str]:
        """Return the tasks that the data of an experiment is: one, or those of a group."""
        return self.groups.get(data, [data])

    def _check_mixing(self, where: str, experiment: ExperimentConfig) -> None:
        """Refuse a recipe that mixes what is not there, or does not say how to mix a group."""
        recipe = self.recipes[experiment.recipe]
        members = self.groups.get(experiment.data, [])
        place = f"{where}.recipe: '{experiment.recipe}'"
        if bool(members) != (recipe.mixing is not None):
            found = "a group of tasks and no mixing" if members else "one task and a mixing"
            raise ValueError(f"{place}: found {found}; a group needs a mixing, and it alone.")
        named = {**(recipe.task_weights or {}), **(recipe.task_batch_sizes or {})}
        main = [recipe.mixing.main] if isinstance(recipe.mixing, MainRatioMixing) else []
        for task in [*named, *main]:
            _check_known(place, "task", task, members)


def read_params(path: Path) -> Params:
    """Read and check params.yaml.

    Raises:
        ConfigError: a key, a type, a value or a reference is wrong.
    """
    return read_config(path, Params)


def _check_known(where: str, sort: str, name: str, allowed: Collection[str]) -> None:
    if name not in allowed:
        raise ValueError(f"{where}: unknown {sort} '{name}'. {suggest(name, allowed)}")
