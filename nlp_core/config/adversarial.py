"""Adversarial training: how inputs are perturbed, and what the loss makes of it.

Word vectors at real tokens are perturbed, so lengths and radii are in the unit of the embeddings: a
row of GloVe has an l2 norm of 3 to 7, one of BERT of about 1.4, with entries of a few hundredths.
"""

from typing import Annotated, Literal

from pydantic import Field

from nlp_core.config.base import ClosedModel, Count, NonNegative, Positive, Share

DivergenceName = Literal["kl", "symmetric_kl", "jensen_shannon", "hellinger"]
"""How the distributions of two passes are compared; numbers always by the squared error."""
Norm = Literal["inf", "l2", "l1"]
Level = Literal["token", "sentence"]


class ProximalConfig(ClosedModel):
    """SMART's second half: stay near the outputs of a moving average of the weights.

    mu D(f(x; weights), f(x; average)) is added to the loss, with the divergence of the first half.
    """

    weight: Positive
    """mu, the factor on the divergence from the average's outputs."""
    early_momentum: Share
    """Share of the average that a step keeps during the first steps."""
    momentum: Share
    """Share of the average that a step keeps afterwards."""
    early_share: Share
    """Share of all steps that count as the first ones."""


class _BallConfig(ClosedModel):
    epsilon: NonNegative
    """Length of the perturbation, or radius of its ball; 0: nothing is perturbed."""
    level: Level
    """Whether each token's vector has a ball, or all vectors of a text together."""


class _AscentConfig(_BallConfig):
    steps: Count
    """Steps of ascent K; each costs a forward and a backward pass."""
    step_size: Positive
    """Length of each step in the norm of the ball."""
    norm: Norm


class _SmoothnessConfig(_BallConfig):
    weight: Positive
    """Factor on the divergence between clean and perturbed outputs."""
    every: Count = 1
    """Every how many steps the divergence counts, times this number: the same pull on average in
    less time (lazy regularisation, Karras et al. 2020, appendix B)."""


class SmartConfig(_SmoothnessConfig, _AscentConfig):
    """SMART: outputs that hardly move when the word vectors do.

    loss + weight D(f(x), f(x + delta)), delta found by ascent of D in a ball, from noise.

    Source: Jiang et al. 2020 (SMART), sections 3.1 and 3.2.
    """

    name: Literal["smart"]
    noise_std: NonNegative
    """Standard deviation of each entry of the first delta."""
    divergence: DivergenceName
    proximal: ProximalConfig | None = None
    """Bregman proximal point term."""


class FreeLBConfig(_AscentConfig):
    """FreeLB: the mean loss along an ascent, each of whose steps trains the weights as well.

    mean_k loss(x + delta_k), k = 0 ... K - 1, delta_0 uniform in the ball. With K = 1 this is
    training on random noise. The paper's norm is l2, its level sentence.

    Source: Zhu et al. 2020 (FreeLB), algorithm 1.
    """

    name: Literal["freelb"]


class VatConfig(_SmoothnessConfig):
    """VAT: outputs that stay the same in the direction in which they change most.

    loss + weight KL(f(x) || f(x + epsilon d)), f(x) held constant, d found by power iteration.
    Lengths are l2. The paper's level is sentence.

    Source: Miyato et al. 2017 (adversarial training methods for semi-supervised text
        classification), section 3.
    """

    name: Literal["vat"]
    steps: Count
    """Power iterations."""
    probe: Positive
    """xi, l2 length at which the curvature of the outputs is measured."""


class FgmConfig(_BallConfig):
    """FGM: the loss, and the loss after one step against the model.

    loss(x) + weight loss(x + epsilon g / |g|), g the gradient of loss(x) by the word vectors, |g|
    its l2 norm. The paper's level is sentence.

    Source: Miyato et al. 2017, as for VAT.
    """

    name: Literal["fgm"]
    weight: Positive
    """Factor on the loss of the perturbed pass."""


AdversarialConfig = Annotated[
    SmartConfig | FreeLBConfig | VatConfig | FgmConfig, Field(discriminator="name")
]
