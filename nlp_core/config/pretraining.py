"""The closed model of an encoder that is pretrained: an entry of encoders in grid/<table>.yaml."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from nlp_core.config.adversarial import AdversarialConfig
from nlp_core.config.base import (
    CELLS,
    ClosedModel,
    Count,
    Name,
    Part,
    Positive,
    Probability,
    Seeds,
    Share,
)
from nlp_core.config.optimizer import OptimizerConfig
from nlp_core.config.recipe import (
    Frozen,
    NumShards,
    Precision,
    RecipeConfig,
    check_parts,
    check_schedule,
    drop_null,
)
from nlp_core.config.schedule import Schedule

START = (
    r"^(data/processed/[a-z0-9_]+|artifacts/cells/[a-z0-9_]+/[a-z0-9_]+|encoders/[a-z0-9_]+\.json)$"
)
FRESH, BEFORE, AFTER = "fresh", "before", "after"
"""When texts are measured in full: with a head of random weights; with the encoder as it began and
a head that was trained for it; at the end."""
ARCHITECTURES = "encoders/"
"""The start of the init of an encoder that is trained from scratch."""
LEAST_LENGTH = 8
OLDEST = ("tokenizer", "pairs", "head_start", "clip_norm", "adversarial", "accumulate")
OLDEST_OPTIONS = ("encoder_lr_scale", "layer_decay", "decayed", "eps", "second_decay")
"""Fields, and those of the optimiser, that the key of a pretrained encoder has even if null."""


class MaskingConfig(ClosedModel):
    """Which pieces are masked, and what replaces them."""

    share: Part
    """Share of the pieces of a window that are masked."""
    most: Count
    """Most of them in a window."""
    hidden_prob: Probability = 0.8
    """Probability that the mask replaces a masked piece."""
    random_prob: Probability = 0.1
    """Probability that a random piece replaces it; else it stays."""
    whole_words: bool = False
    """Whether all pieces of a word are masked together."""

    @model_validator(mode="after")
    def _check_probabilities(self) -> "MaskingConfig":
        if self.hidden_prob + self.random_prob > 1:
            raise ValueError(
                f"found hidden_prob {self.hidden_prob} and random_prob {self.random_prob}, "
                "expected at most 1 together."
            )
        return self


class TokenizerConfig(ClosedModel):
    """A WordPiece tokenizer that is trained on the corpus."""

    vocab_size: Annotated[int, Field(ge=16)]
    """Most pieces, special ones included."""
    lowercase: bool
    """Whether capitals and accents are dropped."""


class PhaseConfig(ClosedModel):
    """A part of the training with windows of one length.

    The learning rate rises and falls in each phase.

    Source: You et al. 2020 (Large Batch Optimization for Deep Learning), section 4.1.
    """

    length: Annotated[int, Field(ge=LEAST_LENGTH)]
    """Most pieces of a window, special ones included."""
    steps: Count
    batch_size: Count
    """Windows per step."""


class HeadStartConfig(ClosedModel):
    """Training of a new head with the encoder frozen, before both are trained.

    Its optimiser is adamw; of the options of `optimizer` those that adamw has too apply to it.
    """

    steps: Count
    """Steps, with batches as in the first phase."""
    lr: Positive
    """Highest learning rate of the schedule."""


class ReplacementConfig(ClosedModel):
    """Pre-training by replaced pieces (ELECTRA) instead of only masked ones.

    A generator predicts the masked pieces, and is not kept. The encoder predicts which pieces of
    the text the generator changed.

    Source: Clark et al. 2020 (ELECTRA), sections 2 and 3.
    """

    weight: Positive
    """Weight of the encoder's loss; that of the generator is 1. The paper has 50."""
    generator: Part
    """Attention heads and inner width of the generator, as a share of those of the encoder. The
    paper has 0.25 to 0.5. The embeddings are shared."""


class EncoderConfig(ClosedModel):
    """An encoder, and how it is pretrained on a corpus."""

    table: Name
    source: str
    """Where the values come from: the paper, or chosen by us."""
    data: Name
    """The corpus: a name under data/processed/."""
    measured_on: Name
    """A task of running text whose masked pieces measure the encoder, as the corpus's held-out
    documents do."""
    init: Annotated[str, Field(pattern=START)]
    """Folder of the encoder to start from; or, to train from scratch, a file under encoders/ with
    the values of a configuration of transformers."""
    tokenizer: TokenizerConfig | None = None
    """The tokenizer of an encoder trained from scratch; null: that of init."""
    masking: MaskingConfig
    pairs: Literal["next_sentence", "sentence_order"] | None = None
    """What is predicted of two segments: whether the second follows, or whether they are in order;
    null: a window is one segment."""
    replacement: ReplacementConfig | None = None
    """How the encoder learns to detect replaced pieces; null: it predicts masked pieces."""
    short_prob: Share = 0.0
    """Probability of a window of a random shorter length."""
    phases: Annotated[list[PhaseConfig], Field(min_length=1)]
    head_start: HeadStartConfig | None = None
    """How a new head is fitted to an encoder without one; null: not at all."""
    optimizer: OptimizerConfig
    schedule: Schedule
    """Learning rate over the steps of a phase, and over those of the head start."""
    clip_norm: Positive | None = None
    """Largest L2 norm of the whole gradient; null: not clipped."""
    adversarial: AdversarialConfig | None = None
    """Training on perturbed word vectors, except in the head start; null: none."""
    accumulate: Count | None = None
    """Parts that the batch of a step is cut into, to save memory; null: one."""
    shards: NumShards | None = None
    """As in a recipe; null: none."""
    precision: Precision | None = None
    """As in a recipe; null: float32."""
    frozen: Frozen | None = None
    """As in a recipe, such as `encoder.*embeddings.*`; null: none."""
    validate_every: Count
    """Steps between two points of the curve, each with a checkpoint."""
    seeds: Seeds
    """Cells that start from the encoder start from that of the first seed; the others show the
    spread. All have the tokenizer of the first."""

    def describe(self) -> dict[str, Any]:  # Any: JSON holds anything
        """Return the values as plain data, without the table and with only the first seed.

        Fields that are null are left out, except the oldest ones, as in a recipe.
        """
        values = self.model_dump(mode="json", exclude={"table", "seeds"})
        values["seed"] = self.seeds[0]
        values["optimizer"] = drop_null(values["optimizer"], keep=OLDEST_OPTIONS)
        return drop_null(values, keep=OLDEST)

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
            shards=self.shards,
            precision=self.precision,
            frozen=self.frozen,
            adversarial=self.adversarial,
        )

    @property
    def num_steps(self) -> int:
        return sum(phase.steps for phase in self.phases)

    @property
    def parent(self) -> str | None:
        """The encoder of the grid that it trains further, or None."""
        return Path(self.init).name if self.init.startswith(CELLS) else None

    @property
    def is_from_scratch(self) -> bool:
        """Whether it is trained from scratch."""
        return self.init.startswith(ARCHITECTURES)

    @model_validator(mode="after")
    def _check_schedule(self) -> "EncoderConfig":
        check_schedule(self.optimizer, self.schedule)
        check_parts(self.shards, self.accumulate)
        lowest = getattr(self.schedule, "min_lr", 0.0)
        if self.head_start is not None and self.head_start.lr < lowest:
            raise ValueError(
                f"head_start.lr: found {self.head_start.lr}, expected at least {lowest}, the "
                "schedule's min_lr."
            )
        return self

    @model_validator(mode="after")
    def _check_start(self) -> "EncoderConfig":
        if self.is_from_scratch != (self.tokenizer is not None):
            found = "no tokenizer" if self.is_from_scratch else "a tokenizer"
            raise ValueError(
                f"init: found '{self.init}' and {found}; an encoder trained from scratch needs a "
                "tokenizer, any other one keeps its own."
            )
        if self.is_from_scratch and self.head_start:
            raise ValueError(
                "head_start: found one with an encoder trained from scratch, which begins with "
                "its head; remove it."
            )
        return self

    @model_validator(mode="after")
    def _check_replacement(self) -> "EncoderConfig":
        if self.replacement is None:
            return self
        if self.pairs or self.adversarial or not self.is_from_scratch:
            raise ValueError(
                "replacement: found it with pairs, with adversarial, or with an init outside "
                f"{ARCHITECTURES}, expected none of them; leave out one or the other."
            )
        return self
