"""Weights that training sets to zero."""

from typing import Annotated

from pydantic import Field, model_validator

from nlp_core.config.base import ClosedModel, Part, Share


class PruningConfig(ClosedModel):
    """Magnitude pruning: the smallest weights of each matrix become zero, more and more of them.

    Tables of embeddings, biases and frozen weights stay.

    Source: Zhu and Gupta 2017 (To prune, or not to prune), eq. 1, with a mask at every step.
    """

    share: Part
    """Share of the weights of each matrix that are zero at the end."""
    start: Share = 0.0
    """Share of all steps before the first weight becomes zero."""
    end: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Share of all steps after which no more weights become zero."""

    @model_validator(mode="after")
    def _check_end(self) -> "PruningConfig":
        if self.end <= self.start:
            raise ValueError(f"found end {self.end} with start {self.start}, expected a later end.")
        return self

    def at(self, done: float) -> float:
        """Return the share of zeros when a share of all steps is done."""
        left = 1 - (done - self.start) / (self.end - self.start)
        return self.share * (1 - min(max(left, 0.0), 1.0) ** 3)
