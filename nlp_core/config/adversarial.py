"""The closed models of adversarial training: how inputs are perturbed, and what is made of it.

What is perturbed are the word vectors at real tokens, so lengths and radii are in the unit of the
embeddings: a row of GloVe has an l2 norm of 3 to 7, one of BERT of about 1.4, with numbers of a few
hundredths.
"""

from typing import Annotated, Literal

from pydantic import Field

from nlp_core.config.base import ClosedModel
from nlp_core.config.number import Count, NonNegative, Positive, Share

DivergenceName = Literal["kl", "symmetric_kl", "jensen_shannon", "hellinger"]
"""How the distributions of two passes are compared; values always by the squared error."""
Norm = Literal["inf", "l2", "l1"]
"""The norm that a ball of perturbations is round in."""
Level = Literal["token", "sentence"]
"""What has a ball of its own: each token's vector, or all vectors of a text together."""


class ProximalConfig(ClosedModel):
    """SMART's second half: stay near the outputs of a moving average of the weights.

    mu D(f(x; weights), f(x; average)) is added to the loss, with the divergence of the first half.
    """

    weight: Positive
    """mu, the factor on the divergence from the average's outputs."""
    early_momentum: Share
    """Share of the average that a step keeps during the first steps, in [0, 1)."""
    momentum: Share
    """Share of the average that a step keeps afterwards, in [0, 1)."""
    early_share: Share
    """Share of all steps that count as the first ones, in [0, 1)."""


class SmartConfig(ClosedModel):
    """SMART: outputs that hardly move when the word vectors do.

    loss + weight D(f(x), f(x + delta)), delta found by ascent of D in a ball, from noise.

    Source: Jiang et al. 2020 (SMART), sections 3.1 and 3.2.
    """

    name: Literal["smart"]
    weight: Positive
    """lambda, the factor on the divergence between the clean and the perturbed outputs."""
    steps: Count
    """Steps of ascent K; each costs a forward pass and a backward pass without weights."""
    step_size: Positive
    """Length of each step in the norm of the ball, in the unit of the embeddings."""
    noise_std: NonNegative
    """Standard deviation of each number of the first delta, in the unit of the embeddings."""
    epsilon: NonNegative
    """Radius of the ball, in the unit of the embeddings; 0: nothing is perturbed."""
    norm: Norm
    """Norm of the ball."""
    level: Level
    """Whether each token has a ball, or each text."""
    divergence: DivergenceName
    """How distributions are compared."""
    every: Count = 1
    """Steps of training from one with the divergence to the next, whose weight is multiplied by it:
    the same pull on average for less time (lazy regularisation, Karras et al. 2020, appendix B)."""
    proximal: ProximalConfig | None = None
    """Bregman proximal point term; null: none."""


class FreeLBConfig(ClosedModel):
    """FreeLB: the mean loss along an ascent, each of whose steps trains the weights as well.

    mean_k loss(x + delta_k), k = 0 ... K - 1, delta_0 uniform in the ball.

    Source: Zhu et al. 2020 (FreeLB), algorithm 1.
    """

    name: Literal["freelb"]
    steps: Count
    """Perturbed passes K, forward and backward; 1 is training on random noise."""
    step_size: Positive
    """Length of each step in the norm of the ball, in the unit of the embeddings."""
    epsilon: NonNegative
    """Radius of the ball, in the unit of the embeddings; 0: nothing is perturbed."""
    norm: Norm
    """Norm of the ball; the paper's is l2."""
    level: Level
    """Whether each token has a ball, or each text, as in the paper."""


class VatConfig(ClosedModel):
    """VAT: outputs that stay the same in the direction in which they are most easily changed.

    loss + weight KL(f(x) || f(x + epsilon d)), f(x) held constant, d found by power iteration.

    Source: Miyato et al. 2017 (adversarial training methods for semi-supervised text
        classification), section 3.
    """

    name: Literal["vat"]
    weight: Positive
    """Factor on the divergence."""
    steps: Count
    """Power iterations."""
    probe: Positive
    """xi, l2 length at which the outputs' curvature is probed, in the unit of the embeddings."""
    epsilon: NonNegative
    """l2 length of the perturbation, in the unit of the embeddings; 0: nothing is perturbed."""
    level: Level
    """Whether each token's perturbation has that length, or each text's, as in the paper."""
    every: Count = 1
    """Steps of training from one with the divergence to the next, whose weight is multiplied by it:
    the same pull on average for less time (lazy regularisation, Karras et al. 2020, appendix B)."""


class FgmConfig(ClosedModel):
    """FGM: the loss, and the loss after one step against the model.

    loss(x) + weight loss(x + epsilon g / |g|), g the gradient of loss(x) by the word vectors.

    Source: Miyato et al. 2017 (adversarial training methods for semi-supervised text
        classification), section 3.
    """

    name: Literal["fgm"]
    weight: Positive
    """Factor on the loss of the perturbed pass."""
    epsilon: NonNegative
    """l2 length of the perturbation, in the unit of the embeddings; 0: nothing is perturbed."""
    level: Level
    """Whether each token's perturbation has that length, or each text's, as in the paper."""


AdversarialConfig = Annotated[
    SmartConfig | FreeLBConfig | VatConfig | FgmConfig, Field(discriminator="name")
]
