"""A tagging head that predicts the labels one after another, each given the one before.

Shape letters: B batch, T tokens, D width of the input, H width of the decoder, E width of a label,
L labels.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from nlp_core.blocks.masking import Mask, Tokens, masked_softmax, zero_padding
from nlp_core.blocks.option import PositiveInt, Probability
from nlp_core.heads.base import HEADS, HeadBatch
from nlp_core.heads.tagging import Reduction, TaggingHead


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

    def read(self, batch: HeadBatch, *, informed: bool) -> tuple[Tensor, ...]:
        """Return the right labels, for teacher forcing."""
        return (batch.targets[self.target],) if informed else ()

    def forward(
        self, x_BTD: Tokens, mask_BT: Mask, target_BT: Int[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B T L"]:
        """Return the logits of the labels, zeros at padding.

        Args:
            target_BT: the right labels, for teacher forcing; None: each step reads the prediction
                before.
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
