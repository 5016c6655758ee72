"""Heads that label tokens, or sentences of documents: each by itself, in turn, or all at once.

Shape letters: B batch, T tokens, D width of the input, L labels, N real tokens of a batch, H width
of a decoder, E width of a label.
"""

from collections.abc import Sequence
from copy import deepcopy
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from nlp_core.blocks.base import SEQUENCE
from nlp_core.blocks.masking import Mask, Tokens, masked_softmax, zero_padding
from nlp_core.blocks.option import PositiveInt, Probability
from nlp_core.heads.base import (
    HEADS,
    PADDING_LABEL,
    Decoded,
    Head,
    Loss,
    Tags,
    TagScores,
)
from nlp_core.heads.crf import (
    Chain,
    compute_log_partition,
    compute_marginals,
    find_best_path,
    score_path,
)
from nlp_core.heads.loss import LabelLossHead, compute_label_loss

LEAST_MARGINAL = 1e-30
"""The least marginal of which the logarithm is taken."""
Reduction = Literal["sentence", "token"]


class EmissionHead(Head):
    """Score each label at each token: W x_t + b.

    Args:
        reduction: whether the summed loss is divided by the number of sentences with tokens
            (`sentence`) or of real tokens (`token`). In a document: of documents, or of sentences.
    """

    kinds = frozenset({"tagging", "intent_slots", "dialogue", "document"})
    target = "tags"
    ranks = ((SEQUENCE,),)

    def __init__(self, in_dim: int, num_labels: int, *, reduction: Reduction = "sentence") -> None:
        super().__init__()
        self.emission = nn.Linear(in_dim, num_labels)
        self.reduction = reduction

    def forward(self, x_BTD: Tokens, mask_BT: Mask) -> TagScores:
        return zero_padding(self.emission(x_BTD), mask_BT)

    def count_terms(self, target: Tensor, where: Tensor | None) -> Tensor:
        """Return the number of sentences or tokens, at least 1."""
        assert where is not None
        real = where.any(1) if self.reduction == "sentence" else where
        return real.sum().clamp(min=1)

    def count_rows(self, target: Tensor, where: Tensor | None) -> Tensor:
        assert where is not None
        return where.sum()

    def outputs(self, scores_BTL: TagScores, mask_BT: Mask) -> Float[Tensor, "N L"]:
        """Return the scores of the labels, a row for each real token.

        A softmax of the emissions of a random field is not its marginals, but it changes with the
        words whenever the field does: transitions do not depend on words.
        """
        return scores_BTL.flatten(0, 1).index_select(0, mask_BT.flatten().nonzero().squeeze(1))


@HEADS.register("tagging")
class TaggingHead(LabelLossHead, EmissionHead):
    """Label each token by itself: p_t = softmax(W x_t + b).

    loss = sum over real tokens of w(y_t) l_t, divided by the number of sentences or tokens, where w
    is 1 without class weights and l_t is the chosen loss, by default -log p_t(y_t).

    Shape: [B, T, D] to [B, T, L].
    """

    def loss(self, scores_BTL: TagScores, target_BT: Tags, mask_BT: Mask) -> Loss:
        target_BT = target_BT.masked_fill(~mask_BT, PADDING_LABEL)
        total = compute_label_loss(
            scores_BTL.flatten(0, 1),
            target_BT.flatten(),
            self.loss_config,
            self.class_weights,
            reduction="sum",
        )
        return total / self.count_terms(target_BT, mask_BT)

    def decode(self, scores_BTL: TagScores, mask_BT: Mask) -> Decoded:
        return Decoded(scores_BTL.argmax(-1).masked_fill(~mask_BT, PADDING_LABEL), None)

    def marginals(self, scores_BTL: TagScores, mask_BT: Mask) -> TagScores:
        """Return the probability of each label at each token, zeros at padding."""
        return zero_padding(scores_BTL.softmax(-1), mask_BT)


@HEADS.register("encoder_decoder_tagging")
class EncoderDecoderTaggingHead(TaggingHead):
    """Decode labels with an LSTM that reads the encoder's state at its token and attends to all.

    s_t = LSTM([x_t; c_t; embed(y_{t-1})], s_{t-1}), c_t = sum_j softmax_j(v . tanh(W s_{t-1} +
    U x_j + b)) x_j, p_t = softmax(emission(s_t)); s_0 = tanh(W0 x_1 + b0). In training y_{t-1} is
    the right label (teacher forcing), else the likeliest label of the token before (greedy).
    The loss is that of the head `tagging`.

    Args:
        hidden_dim: width H of the decoder.
        label_dim: width E of the embedding of the label before.
        dropout: probability of a zero in the decoder's input and state before the emission.

    Shape: [B, T, D] to [B, T, L].

    Source: Liu and Lane 2016 (attention-based recurrent networks for joint intent detection and
        slot filling), section 3.1, aligned inputs with attention.
    Note: the first state comes from the first token, whose vector holds the last state of a
        bidirectional encoder's backward half.
    """

    reads_target = True

    def __init__(
        self,
        in_dim: int,
        num_labels: int,
        *,
        hidden_dim: PositiveInt = 128,
        label_dim: PositiveInt = 30,
        dropout: Probability = 0.0,
        reduction: Reduction = "sentence",
    ) -> None:
        super().__init__(hidden_dim, num_labels, reduction=reduction)
        self.label = nn.Embedding(num_labels + 1, label_dim)  # the last row: no label before
        self.first = nn.Linear(in_dim, hidden_dim)
        self.key = nn.Linear(in_dim, hidden_dim)
        self.query = nn.Linear(hidden_dim, hidden_dim, bias=False)
        self.energy = nn.Linear(hidden_dim, 1, bias=False)
        self.cell = nn.LSTMCell(2 * in_dim + label_dim, hidden_dim)
        self.dropout = dropout

    def forward(self, x_BTD: Tokens, mask_BT: Mask, target_BT: Tags | None = None) -> TagScores:
        """Return the logits of the labels, zeros at padding.

        Without the right labels `target_BT` each step reads the prediction of the step before.
        """
        x_BTD = zero_padding(x_BTD, mask_BT)
        key_BTH = self.key(x_BTD)
        state_BH = torch.tanh(self.first(x_BTD[:, 0]))
        memory_BH = torch.zeros_like(state_BH)
        start = self.label.num_embeddings - 1
        before_B = torch.full((len(x_BTD),), start, device=x_BTD.device)
        scores = []
        for idx, x_BD in enumerate(x_BTD.unbind(1)):
            context_BD = self._attend(state_BH, key_BTH, x_BTD, mask_BT)
            inputs = torch.cat([x_BD, context_BD, self.label(before_B)], -1)
            state_BH, memory_BH = self.cell(self._drop(inputs), (state_BH, memory_BH))
            score_BL = self.emission(self._drop(state_BH))
            scores.append(score_BL)
            before_B = score_BL.argmax(-1)
            if target_BT is not None:
                before_B = target_BT[:, idx].masked_fill(~mask_BT[:, idx], start)
        return zero_padding(torch.stack(scores, 1), mask_BT)

    def _attend(self, state_BH: Tensor, key_BTH: Tensor, x_BTD: Tensor, mask_BT: Tensor) -> Tensor:
        energy_BT = self.energy(torch.tanh(self.query(state_BH).unsqueeze(1) + key_BTH)).squeeze(-1)
        weight_BT = masked_softmax(energy_BT, mask_BT)
        return torch.bmm(weight_BT.unsqueeze(1), x_BTD).squeeze(1)

    def _drop(self, x_BD: Tensor) -> Tensor:
        return functional.dropout(x_BD, self.dropout, self.training)


@HEADS.register("crf_tagging")
class CRFTaggingHead(EmissionHead):
    """Label a sentence as a whole: p(y) = exp(score(y)) / Z, a linear-chain random field.

    score(y) = start(y_1) + sum_t (W x_t + b)(y_t) + sum_t transition(y_{t-1}, y_t) + end(y_n);
    loss = sum over sentences of log Z - score(target), divided by their number or the tokens'.
    Transitions, start and end begin at zero.

    Shape: [B, T, D] to emissions [B, T, L].

    Source: Lample et al. 2016 (neural architectures for NER), section 2.2.
    """

    structured = True

    def __init__(self, in_dim: int, num_labels: int, **options: Reduction) -> None:
        super().__init__(in_dim, num_labels, **options)
        self.transition = nn.Parameter(torch.zeros(num_labels, num_labels))
        self.start = nn.Parameter(torch.zeros(num_labels))
        self.end = nn.Parameter(torch.zeros(num_labels))

    def join(self, others: Sequence["CRFTaggingHead"]) -> "CRFTaggingHead":
        """Return the field of the mean scores of several, for the mean of their emissions.

        Its distribution over labellings is the normalised geometric mean of theirs.
        """
        joined = deepcopy(self)
        for name in ("transition", "start", "end"):
            parts = [getattr(head, name).detach() for head in (self, *others)]
            getattr(joined, name).data = torch.stack(parts).mean(0)
        return joined

    def loss(self, scores_BTL: TagScores, target_BT: Tags, mask_BT: Mask) -> Loss:
        chain, full_BT = self._chain(scores_BTL), _fill_empty(mask_BT)
        score_B = score_path(chain, target_BT.masked_fill(~mask_BT, 0), full_BT)
        loss_B = (compute_log_partition(chain, full_BT) - score_B) * mask_BT[:, 0]
        total = loss_B.sum().to(self.transition.dtype)
        return total / self.count_terms(target_BT, mask_BT)

    def decode(self, scores_BTL: TagScores, mask_BT: Mask) -> Decoded:
        path_BT = find_best_path(self._chain(scores_BTL), _fill_empty(mask_BT))
        return Decoded(path_BT.masked_fill(~mask_BT, PADDING_LABEL), None)

    def marginals(self, scores_BTL: TagScores, mask_BT: Mask) -> TagScores:
        with torch.no_grad():
            found = compute_marginals(self._chain(scores_BTL), _fill_empty(mask_BT))
        return zero_padding(found.label.to(scores_BTL.dtype), mask_BT)

    def soften(self, scores_BTL: TagScores, mask_BT: Mask | None) -> TagScores:
        """Return the log-probability of each label at each token, differentiable.

        Source: Wang et al. 2020 (structure-level knowledge distillation), section 3.2, posterior
            distillation: marginals describe the field, and a softmax can learn them too.
        """
        assert mask_BT is not None
        found = compute_marginals(self._chain(scores_BTL), _fill_empty(mask_BT))
        return found.label.clamp(min=LEAST_MARGINAL).log().to(scores_BTL.dtype)

    def _chain(self, scores_BTL: Tensor) -> Chain:
        parts = scores_BTL, self.transition, self.start, self.end
        return Chain(*(part.double() for part in parts))


def _fill_empty(mask_BT: Tensor) -> Tensor:
    """Make the first position of each sentence real: the recursions need a token."""
    first_T = torch.arange(mask_BT.shape[1], device=mask_BT.device) == 0
    return mask_BT | first_T
