"""Augmentation: altered or mixed examples that a recipe trains on next to its own.

Unlike what teachers label (`AlterationConfig`), these examples keep the labels of their texts.
"""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from nlp_core.config.base import ClosedModel, Count, Part, Positive, Probability, Share


class EdaConfig(ClosedModel):
    """EDA: altered copies of the training texts, with their labels.

    Source: Wei and Zou 2019 (EDA), section 2, where each probability is 0.1.
    Note: a new word is one that follows the same word in train; no thesaurus is used.
    """

    name: Literal["eda"]
    copies: Count
    """Altered copies of each text; those equal to the text are left out."""
    replace_prob: Probability = 0.0
    """Of a token, to be replaced by one that elsewhere follows the same previous token."""
    insert_prob: Probability = 0.0
    """Of a token, to be followed by a word that follows it elsewhere."""
    swap_prob: Probability = 0.0
    """That a token swaps places with another token of the text."""
    delete_prob: Share = 0.0
    """Of a token, to be left out; a text keeps one at least."""

    @model_validator(mode="after")
    def _check_probabilities(self) -> "EdaConfig":
        if not (self.replace_prob or self.insert_prob or self.swap_prob or self.delete_prob):
            raise ValueError("found no probability above 0, expected one at least.")
        return self


class CutoffConfig(ClosedModel):
    """Token cut-off: the loss, and the loss without the vectors of some tokens.

    loss(x) + weight loss(x without a random share of its word vectors), both with the same dropout.

    Source: Shen et al. 2020 (cutoff), section 3, token cutoff, without its divergence term.
    """

    name: Literal["cutoff"]
    share: Part
    """Probability of a token's vector to be 0."""
    weight: Positive
    """Factor on the second loss; 1 in the paper."""


class MixupConfig(ClosedModel):
    """Mixup: the loss of mixtures of two examples' vectors, by the labels of both.

    x = k x1 + (1 - k) x2 where a head reads them, loss = k loss(x, y1) + (1 - k) loss(x, y2), with
    one k from Beta(alpha, alpha) for a batch, whose examples are paired at random.

    Source: Guo et al. 2019 (augmenting data with mixup for sentence classification), senMixup.
    """

    name: Literal["mixup"]
    alpha: Positive
    """Of the Beta distribution: 1, as in the paper, makes all mixtures equally likely; near 0 texts
    hardly mix."""


AugmentationConfig = Annotated[EdaConfig | CutoffConfig | MixupConfig, Field(discriminator="name")]
