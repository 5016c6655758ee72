"""Divergences of two categorical distributions, given as logits, and of two values.

Everything is computed from log-probabilities, and each sum is arranged so that equal inputs give
exactly 0, with a gradient of exactly 0. A class that a row does not have (a padded place of an
answer, a candidate of another question) has the same hidden logit in both distributions: its
probability is 0, and so is its share.

Shape letters: N rows, L classes.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from nlp_core.config.adversarial import DivergenceName


def compare_rows(
    name: DivergenceName, first: Float[Tensor, "N ..."], second: Float[Tensor, "N ..."]
) -> Float[Tensor, " N"]:
    """Return how far each row of two outputs lies apart, differentiable in both.

    Args:
        name: which divergence of distributions; values are compared by their squared error.
        first: logits [N, L] or values [N]; `kl` is a mean over its distribution.
    """
    assert first.shape == second.shape, (first.shape, second.shape)
    if first.ndim == 1:
        return (first - second).square()
    return DIVERGENCES[name](first.log_softmax(-1), second.log_softmax(-1))


def mean_divergence(
    name: DivergenceName, first: Float[Tensor, "N ..."], second: Float[Tensor, "N ..."]
) -> Float[Tensor, ""]:
    """Return the mean of `compare_rows` over the rows; 0 of no rows."""
    return compare_rows(name, first, second).sum() / max(len(first), 1)


def kl(log_p_NL: Float[Tensor, "N L"], log_q_NL: Float[Tensor, "N L"]) -> Float[Tensor, " N"]:
    """Return KL(p || q) = sum p (log p - log q) of each row.

    Note: the sum of -p + q, which is 0, is added class by class. No term is then below 0, and at
        p = q each term's slope is exactly 0 instead of a sum that cancels up to rounding.
    """
    p_NL = log_p_NL.exp()
    return (p_NL * (log_p_NL - log_q_NL) - p_NL + log_q_NL.exp()).sum(-1)


def symmetric_kl(
    log_p_NL: Float[Tensor, "N L"], log_q_NL: Float[Tensor, "N L"]
) -> Float[Tensor, " N"]:
    """Return KL(p || q) + KL(q || p) = sum (p - q) (log p - log q) of each row.

    Source: Jeffreys 1946 (an invariant form for the prior probability in estimation problems).
    """
    return ((log_p_NL.exp() - log_q_NL.exp()) * (log_p_NL - log_q_NL)).sum(-1)


def jensen_shannon(
    log_p_NL: Float[Tensor, "N L"], log_q_NL: Float[Tensor, "N L"]
) -> Float[Tensor, " N"]:
    """Return KL(p || m) / 2 + KL(q || m) / 2 of each row, with m = (p + q) / 2; at most log 2.

    Source: Lin 1991 (divergence measures based on the Shannon entropy), section IV.
    """
    # log m = max + log((1 + e^-|log p - log q|) / 2), whose second term is exactly 0 where p = q
    gap_NL = (log_p_NL - log_q_NL).abs()
    log_m_NL = torch.maximum(log_p_NL, log_q_NL) + torch.log1p(torch.expm1(-gap_NL) / 2)
    return (kl(log_p_NL, log_m_NL) + kl(log_q_NL, log_m_NL)) / 2


def squared_hellinger(
    log_p_NL: Float[Tensor, "N L"], log_q_NL: Float[Tensor, "N L"]
) -> Float[Tensor, " N"]:
    """Return ||sqrt p - sqrt q||^2 / 2 = 1 - sum sqrt(p q) of each row; at most 1."""
    gap_NL = (log_p_NL / 2).exp() - (log_q_NL / 2).exp()
    return gap_NL.square().sum(-1) / 2


DIVERGENCES: dict[DivergenceName, Callable[[Tensor, Tensor], Tensor]] = {
    "kl": kl,
    "symmetric_kl": symmetric_kl,
    "jensen_shannon": jensen_shannon,
    "hellinger": squared_hellinger,
}
