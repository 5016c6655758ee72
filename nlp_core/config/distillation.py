"""The closed models of distillation: who teaches what, and what a student makes of it."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from nlp_core.config.base import ClosedModel
from nlp_core.config.name import CellFolder, Name
from nlp_core.config.number import Count, NonNegative

Probability = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0, le=1)]
Seeds = Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]


class MatchingConfig(ClosedModel):
    """What the layers of a student's encoder learn from those of its teacher's.

    Layers are counted from 1, the first transformer layer; 0 are the embeddings.
    """

    layer: Name
    """The layer of the student's model file whose block is pretrained_encoder."""
    teacher_layer: Name | None = None
    """That of the teacher's model file; null: of the same name."""
    hidden: dict[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]] = Field(
        default_factory=dict
    )
    """For each layer of the student whose hidden states learn, the teacher's that they learn from;
    empty: none."""
    attention: dict[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]] = Field(
        default_factory=dict
    )
    """For each layer of the student whose attention learns, the teacher's that it learns from;
    empty: none."""
    hidden_weight: NonNegative = 1.0
    """Factor on the squared difference of the hidden states; 0: they are not compared."""
    attention_weight: NonNegative = 1.0
    """Factor on the divergence of the attention; 0: it is not compared."""

    @model_validator(mode="after")
    def _check_maps(self) -> "MatchingConfig":
        if not self.hidden and not self.attention:
            raise ValueError(
                "found no layer in hidden and none in attention, expected one at least, such as "
                "hidden: {3: 6}; or remove matching."
            )
        return self


class ObjectiveConfig(ClosedModel):
    """What all objectives share: how much the soft labels count, and whether layers learn too.

    loss = (1 - weight) hard + weight soft, a mean over the examples; an example without a label,
    and a task without a teacher, has only the other term.
    """

    weight: Weight
    """Share of the soft labels in the loss: 0 is training without a teacher, 1 without labels; what
    matching adds comes on top."""
    task_weights: dict[Name, Weight] | None = None
    """The weights of some tasks of a group; null, and of all others: weight."""
    matching: MatchingConfig | None = None
    """What hidden states and attention learn from the teacher's; null: nothing."""

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


class AlterationConfig(ClosedModel):
    """How a teacher's texts are altered, which then are further examples without a label.

    Source: Tang et al. 2019 (distilling task-specific knowledge from BERT into simple neural
        networks), section 3.3, where the probabilities are 0.1, 0.1 and 0.25.
    """

    copies: Count
    """Altered copies of each text; those that are there already are left out."""
    mask_prob: Probability
    """Of a token, to be replaced by [MASK]."""
    replace_prob: Probability
    """Of a token, to be replaced by one that follows the same token elsewhere."""
    cut_prob: Probability
    """Of a copy, to be cut to one to five tokens."""
    seed: Annotated[int, Field(ge=0)]
    """Of all that is drawn."""

    @model_validator(mode="after")
    def _check_probabilities(self) -> "AlterationConfig":
        both = self.mask_prob + self.replace_prob
        if both + self.cut_prob == 0 or both > 1:
            raise ValueError(
                f"found mask_prob {self.mask_prob}, replace_prob {self.replace_prob} and cut_prob "
                f"{self.cut_prob}, expected one above 0, and the first two not above 1 together."
            )
        return self


class TeachingConfig(ClosedModel):
    """A task with what a trained cell says of its training texts, as soft labels."""

    cell: CellFolder
    """Folder of the trained cell."""
    seeds: Seeds
    """Its seeds that teach: an ensemble, with those that taught `data` before."""
    data: Name
    """The task that is taught, which another cell may have taught already."""
    further: Literal["held_out", "dev", "test"] | None = None
    """Split whose texts become further training examples, without their labels; null: none."""
    alteration: AlterationConfig | None = None
    """How altered copies of the training texts become further examples; null: there are none."""

    @model_validator(mode="after")
    def _check_seeds(self) -> "TeachingConfig":
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"found seeds {self.seeds}; each seed may stand once.")
        return self
