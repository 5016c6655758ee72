"""How a trained cell teaches a task: the soft labels of its texts, and further texts."""

from typing import Literal

from pydantic import model_validator

from nlp_core.config.base import CellFolder, ClosedModel, Count, Name, Probability, Seeds, Whole
from nlp_core.config.recipe import Precision


class AlterationConfig(ClosedModel):
    """How a teacher's texts are altered into further examples without a label.

    Source: Tang et al. 2019 (distilling task-specific knowledge from BERT into simple neural
        networks), section 3.3, where the probabilities are 0.1, 0.1 and 0.25.
    """

    copies: Count
    """Altered copies of each text; repeated ones are left out."""
    mask_prob: Probability
    """Of a token, to be replaced by [MASK]."""
    replace_prob: Probability
    """Of a token, to be replaced by one that elsewhere follows the same previous token."""
    cut_prob: Probability
    """Of a copy, to be cut to one to five tokens."""
    seed: Whole

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
    """A task with a trained cell's predictions of its training texts, as soft labels."""

    cell: CellFolder
    seeds: Seeds
    """The cell's seeds that teach: an ensemble, with those that taught `data` before."""
    data: Name
    """The task that is taught, which another cell may have taught already."""
    further: Literal["held_out", "dev", "test"] | None = None
    """Split whose texts become further training examples, without their labels; null: none."""
    precision: Precision | None = None
    """Number format of most arithmetic of the prediction; null: float32."""
    alteration: AlterationConfig | None = None
    """How altered copies of the training texts become further examples; null: none."""
