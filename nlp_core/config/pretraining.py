"""The closed model of an encoder that is pretrained: an entry of encoders in grid/<table>.yaml."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from nlp_core.config.adversarial import AdversarialConfig
from nlp_core.config.base import ClosedModel, Seed
from nlp_core.config.masking import MaskingConfig
from nlp_core.config.name import Name
from nlp_core.config.number import Count, Positive, Share
from nlp_core.config.recipe import OptimizerConfig, RecipeConfig, Schedule

Start = Annotated[
    str,
    Field(
        pattern=r"^(data/processed/[a-z0-9_]+|artifacts/cells/[a-z0-9_]+/[a-z0-9_]+"
        r"|encoders/[a-z0-9_]+\.json)$"
    ),
]
ARCHITECTURES = "encoders/"
"""How the init of an encoder begins that is trained from nothing."""
LEAST_LENGTH = 8


class TokenizerConfig(ClosedModel):
    """A WordPiece tokenizer that is learnt on the corpus."""

    vocab_size: Annotated[int, Field(ge=16)]
    """Most pieces, the special ones among them."""
    lowercase: bool
    """Whether capitals and accents are dropped."""


class PhaseConfig(ClosedModel):
    """A part of the training with windows of one length.

    The learning rate rises and falls in each phase.

    Source: You et al. 2020 (Large Batch Optimization for Deep Learning), section 4.1.
    """

    length: Annotated[int, Field(ge=LEAST_LENGTH)]
    """Most pieces of a window, the special ones among them."""
    steps: Count
    """Updates of the weights."""
    batch_size: Count
    """Windows of a step."""


class HeadStartConfig(ClosedModel):
    """A new head's own training, with the encoder frozen, before both are trained."""

    steps: Count
    """Steps of it, with batches as in the first phase."""
    lr: Positive
    """Learning rate at its height."""


class EncoderConfig(ClosedModel):
    """An encoder, and how it is pretrained on a corpus."""

    table: Name
    """The table that the encoder belongs to."""
    source: str
    """Where the values come from: the paper, or chosen by us."""
    data: Name
    """The corpus: a name under data/processed/."""
    measured_on: Name
    """A task of running text whose masked pieces measure the encoder, as the corpus's own held-out
    documents do."""
    init: Start
    """Folder of the encoder that is trained on; or, to begin from nothing, a file under encoders/
    with the values of a configuration of transformers."""
    tokenizer: TokenizerConfig | None = None
    """The tokenizer of an encoder that begins from nothing; null: that of init."""
    masking: MaskingConfig
    pairs: Literal["next_sentence", "sentence_order"] | None = None
    """What is predicted of two segments: whether the second follows, or whether they are in order;
    null: a window is one segment."""
    short_prob: Share = 0.0
    """Probability of a window of a random shorter length."""
    phases: Annotated[list[PhaseConfig], Field(min_length=1)]
    """Parts of the training, one after the other."""
    head_start: HeadStartConfig | None = None
    """What fits a new head to an encoder that has none; null: nothing."""
    optimizer: OptimizerConfig
    schedule: Schedule
    """Learning rate over the steps of a phase, and over those of the head start."""
    clip_norm: Positive | None = None
    """Largest L2 norm of the whole gradient; null: not clipped."""
    adversarial: AdversarialConfig | None = None
    """Training on perturbed word vectors, but for the head start; null: none."""
    accumulate: Count | None = None
    """Parts that the batch of a step is cut into, to save memory; null: one."""
    validate_every: Count
    """Steps between two points of the curve, each with a checkpoint."""
    seed: Seed
    """Seed of weights, order, masking and dropout."""

    def describe(self) -> dict[str, Any]:  # Any: JSON holds anything
        """Return the values as plain data, without the table."""
        return self.model_dump(mode="json", exclude={"table"})

    def list_trainings(self) -> list[tuple[PhaseConfig, RecipeConfig]]:
        """Return length and recipe of each training: that of the head, if any, and the phases."""
        found = [(phase, self._find_recipe(phase)) for phase in self.phases]
        if self.head_start is not None:
            steps, lr = self.head_start.steps, self.head_start.lr
            phase = self.phases[0].model_copy(update={"steps": steps})
            changes = {
                "optimizer": self.optimizer.model_copy(update={"name": "adamw", "lr": lr}),
                "adversarial": None,
            }
            found.insert(0, (phase, self._find_recipe(phase).model_copy(update=changes)))
        return found

    def _find_recipe(self, phase: PhaseConfig) -> RecipeConfig:
        return RecipeConfig(
            source=self.source,
            optimizer=self.optimizer,
            schedule=self.schedule,
            batch_size=phase.batch_size,
            # an epoch has one step at least
            epochs=phase.steps,
            kept_epoch="last",
            clip_norm=self.clip_norm,
            accumulate=self.accumulate,
            adversarial=self.adversarial,
        )

    @property
    def num_steps(self) -> int:
        """The steps of all phases."""
        return sum(phase.steps for phase in self.phases)

    @property
    def begins_from_nothing(self) -> bool:
        """Whether there is no encoder to go on from."""
        return self.init.startswith(ARCHITECTURES)

    @model_validator(mode="after")
    def _check_start(self) -> "EncoderConfig":
        if self.begins_from_nothing != (self.tokenizer is not None):
            found = "no tokenizer" if self.begins_from_nothing else "a tokenizer"
            raise ValueError(
                f"init: found '{self.init}' and {found}; an encoder that begins from nothing needs "
                "a tokenizer, and one that is trained on keeps its own."
            )
        if self.begins_from_nothing and self.head_start:
            raise ValueError(
                "head_start: found one with an encoder that begins from nothing, whose head is as "
                "new as all of it; leave it out."
            )
        return self
