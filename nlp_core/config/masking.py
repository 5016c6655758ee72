"""The closed model of how pieces are masked: of encoders, and of the head masked_language_model."""

from typing import Annotated

from pydantic import Field, model_validator

from nlp_core.config.base import ClosedModel
from nlp_core.config.number import Count


class MaskingConfig(ClosedModel):
    """Which pieces are masked, and what replaces them."""

    share: Annotated[float, Field(gt=0, lt=1)]
    """Share of the pieces of a window that are masked."""
    most: Count
    """Most of them in a window."""
    hidden_prob: Annotated[float, Field(ge=0, le=1)] = 0.8
    """Probability that the mask replaces a masked piece."""
    random_prob: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Probability that a random piece replaces it; else it stays as it is."""
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
