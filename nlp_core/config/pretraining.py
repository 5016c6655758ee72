"""The closed model of an encoder that is pretrained: an entry of encoders in grid/<table>.yaml."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from nlp_core.config.adversarial import AdversarialConfig
from nlp_core.config.base import ClosedModel, Seed
from nlp_core.config.name import Name

Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, lt=1)]
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


class MaskingConfig(ClosedModel):
    """Which pieces are hidden, and what stands in their place; drawn anew in every epoch."""

    share: Annotated[float, Field(gt=0, lt=1)]
    """Share of the pieces of a window that are to be told."""
    most: Count
    """Most of them in a window."""
    hidden_prob: Annotated[float, Field(ge=0, le=1)] = 0.8
    """Probability that the mask stands there."""
    random_prob: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Probability that any other piece stands there; else it stays as it is."""
    whole_words: bool = False
    """Whether all pieces of a word are hidden together."""

    @model_validator(mode="after")
    def _check_probabilities(self) -> "MaskingConfig":
        if self.hidden_prob + self.random_prob > 1:
            raise ValueError(
                f"found hidden_prob {self.hidden_prob} and random_prob {self.random_prob}, "
                "expected at most 1 together."
            )
        return self


class PhaseConfig(ClosedModel):
    """A part of the training with windows of one length."""

    length: Annotated[int, Field(ge=LEAST_LENGTH)]
    """Most pieces of a window, the special ones among them."""
    share: Annotated[float, Field(gt=0, le=1)]
    """Share of the steps."""
    batch_size: Count
    """Windows of a step."""


class PretrainingOptimizerConfig(ClosedModel):
    """How a gradient moves the weights; the rate rises and falls linearly."""

    name: Literal["adamw", "lamb"]
    lr: Positive
    """Learning rate at its height."""
    weight_decay: Annotated[float, Field(ge=0)]
    """Decay of matrices a step, relative to the learning rate; biases and norms have none."""
    warmup: Share
    """Share of the steps in which the rate rises."""
    eps: Positive = 1.0e-6
    """Added to the root of the mean square of the gradient."""
    second_decay: Share = 0.999
    """Decay of the mean square of the gradient a step."""


class HeadStartConfig(ClosedModel):
    """A new head's own training, with the encoder left as it is, before both are trained."""

    steps: Count
    """Steps of it, with batches as in the first phase."""
    lr: Positive
    """Learning rate of AdamW at its height; it rises and falls as that of the encoder."""


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
    """What is asked of two segments: does the second follow, or: are they in order; null: a window
    is one stretch of text and nothing is asked."""
    short_prob: Share = 0.0
    """Probability of a window of a random shorter length."""
    phases: Annotated[list[PhaseConfig], Field(min_length=1)]
    """Parts of the training, one after the other; their shares make 1."""
    steps: Count
    """Updates of the weights of the encoder."""
    head_start: HeadStartConfig | None = None
    """What fits a new head to an encoder that has none; null: nothing."""
    optimizer: PretrainingOptimizerConfig
    clip_norm: Positive | None = None
    """Largest L2 norm of the whole gradient; null: not clipped."""
    adversarial: AdversarialConfig | None = None
    """How the encoder's word vectors are perturbed while it is trained; the head's own start is
    without. null: not at all."""
    accumulation: Count = 1
    """Parts that a batch is computed in, to save memory."""
    validate_every: Count
    """Steps between two points of the curve, at which the run can be gone on with as well."""
    seed: Seed
    """Seed of weights, order, masking and dropout."""

    def describe(self) -> dict[str, Any]:
        """Return the values as JSON; adversarial only where there is one, as in a recipe."""
        unset = {"table"} | ({"adversarial"} if self.adversarial is None else set())
        return self.model_dump(mode="json", exclude=unset)

    @property
    def begins_from_nothing(self) -> bool:
        """Whether there is no encoder to go on from."""
        return self.init.startswith(ARCHITECTURES)

    @property
    def all_steps(self) -> int:
        """Steps with those of the head alone."""
        return self.steps + (self.head_start.steps if self.head_start else 0)

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

    @model_validator(mode="after")
    def _check_phases(self) -> "EncoderConfig":
        total = sum(phase.share for phase in self.phases)
        if abs(total - 1) > 1e-6:
            raise ValueError(f"phases: found shares of {total:g} together, expected 1.")
        for phase in self.phases:
            if phase.batch_size % self.accumulation:
                raise ValueError(
                    f"accumulation: found {self.accumulation} with a batch_size of "
                    f"{phase.batch_size}, expected a divisor of it."
                )
        return self
