"""Heads that write in pieces with the decoder of a pretrained encoder-decoder, such as T5.

Shape letters: B batch, T pieces that are read, S pieces that are written, D width of the input,
V pieces of the vocabulary, L labels, R hypotheses.
"""

from typing import Annotated, Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from nlp_core.blocks.base import SEQUENCE
from nlp_core.blocks.masking import Mask, Tokens
from nlp_core.blocks.option import PositiveInt
from nlp_core.heads.base import (
    HEADS,
    PADDING_LABEL,
    Decoded,
    Head,
    Loss,
    Scores,
    hide_classes,
)
from nlp_core.heads.parsing import WritingHead
from nlp_core.heads.search import search

LEAST_LOG_PROB = -80.0
"""Of a text that is the answer: its probability is not 0 in 32 bits."""
Penalty = Annotated[float, Field(ge=0.0)]
Pieces = Int[Tensor, "B S"]


@runtime_checkable
class PieceDecoder(Protocol):
    """The decoder of an encoder-decoder; `end` is the id of the piece that ends a text."""

    @property
    def end(self) -> int: ...

    def build_cache(self) -> Any:  # Any: of transformers
        """Return what keeps the states of the pieces before; `reorder_cache` takes rows of it."""

    def rate(self, x_BTD: Tensor, mask_BT: Tensor, before_BS: Tensor, cache: Any = None) -> Tensor:
        """Return the log probability of each piece after each of some, [B, S, V].

        Args:
            before_BS: ids; below 0: the start of a text.
            cache: with the pieces before these; None: these are the first.
        """


class Rated(NamedTuple):
    """Right pieces, [B, S]: the log probability of each, 0 at padding; is it the likeliest."""

    log_prob: Tensor
    is_likeliest: Tensor


def rate_pieces(decoder: PieceDecoder, x_BTD: Tensor, mask_BT: Tensor, target_BS: Tensor) -> Rated:
    """Rate right pieces, each after the right ones before it; -1 is padding."""
    before_BS = functional.pad(target_BS[:, :-1], (1, 0), value=PADDING_LABEL)
    log_BSV = decoder.rate(x_BTD, mask_BT, before_BS)
    log_BS = log_BSV.gather(-1, target_BS.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    return Rated(log_BS.masked_fill(target_BS < 0, 0.0), log_BSV.argmax(-1) == target_BS)


class PieceWriter:
    """Hypotheses of texts in pieces; the last step can only end a text."""

    def __init__(
        self, decoder: PieceDecoder, x_RTD: Tensor, mask_RT: Tensor, max_pieces: int
    ) -> None:
        self._decoder, self._x, self._mask = decoder, x_RTD, mask_RT
        self._left = max_pieces
        self._cache = decoder.build_cache()
        self.done = ~mask_RT.any(1)
        self._read(torch.full_like(self.done, PADDING_LABEL, dtype=torch.int64))

    def score(self) -> Tensor:
        if self._left > 1:
            return self._log
        end_V = torch.arange(self._log.shape[1], device=self._log.device) == self._decoder.end
        return self._log.masked_fill(~end_V, -torch.inf).log_softmax(-1)

    def advance(self, parent_R: Tensor, choice_R: Tensor) -> None:
        parent_R, choice_R = parent_R.to(self.done.device), choice_R.to(self.done.device)
        self._left -= 1
        self.done = self.done[parent_R] | (choice_R == self._decoder.end)
        self._cache.reorder_cache(parent_R)
        self._read(choice_R)

    def _read(self, before_R: Tensor) -> None:
        before_R1 = before_R.unsqueeze(1)
        self._log = self._decoder.rate(self._x, self._mask, before_R1, self._cache)[:, 0]


@HEADS.register("pretrained_decoder")
class PretrainedDecoderHead(WritingHead):
    """Write a text with the decoder of a `pretrained_encoder_decoder`, such as T5.

    The text is written in the pieces of the encoder-decoder's tokenizer, the likeliest that a beam
    finds. In training the decoder reads the right pieces (teacher forcing). The loss is minus the
    log probability of the right pieces and the end of a text, a mean over the texts.

    Args:
        penalty: exponent of the length by which log probabilities are divided, so that a beam does
            not prefer short texts; 0: none.
        max_pieces: of an answer, with its end.

    Shape: [B, T, D], right pieces [B, S] to log probabilities [B, S].

    Source: Raffel et al. 2020 (T5), section 2.
    """

    kinds = frozenset({"generation"})
    target = "output"
    reads_texts = True
    reads_target = True
    writes_pieces = True

    def __init__(
        self,
        in_dim: int,
        num_labels: int,
        *,
        beam: PositiveInt = 1,
        penalty: Penalty = 0.0,
        max_pieces: PositiveInt = 60,
    ) -> None:
        super().__init__(beam=beam)
        self.penalty, self.max_pieces = penalty, max_pieces

    def forward(self, x_BTD: Tokens, mask_BT: Mask, *more: Pieces | PieceDecoder) -> Tensor:
        """Return the log probability of each right piece, [B, S].

        Without the right pieces, return log probability and pieces of the answers, [B, 1 + S].
        """
        *target, decoder = more
        assert isinstance(decoder, PieceDecoder), type(decoder)
        if target:
            (target_BS,) = target
            assert isinstance(target_BS, Tensor), type(target_BS)
            log_BS = rate_pieces(decoder, x_BTD, mask_BT, target_BS).log_prob
            return log_BS.masked_fill(~mask_BT.any(1, keepdim=True), 0.0)
        x_RTD, mask_RT = (item.repeat_interleave(self.beam, 0) for item in (x_BTD, mask_BT))
        with torch.no_grad():
            writer = PieceWriter(decoder, x_RTD, mask_RT, self.max_pieces)
            found = search(
                writer,
                batch=len(mask_BT),
                beam=self.beam,
                max_steps=self.max_pieces,
                penalty=self.penalty,
            )
        return found.join()


@HEADS.register("label_text")
class LabelTextHead(Head):
    """Classify by generating the label as text, with the decoder of a `pretrained_encoder_decoder`.

    score(l) = log p(text of l | x), a sum over its pieces and its end. The loss is -score of the
    right label, a mean over the examples.

    Args:
        constrained: whether only labels can be written: the answer is the likeliest one, and
            p = softmax(scores). Otherwise, the likeliest piece is written at each step, and a text
            other than a label is a wrong answer, without a label. p(l) is then exp(score(l)) of
            the label that is written, and 0 of all others.

    Shape: [B, T, D] to [B, L]; in training [B, T, D] and right labels [B] to scores [B].

    Source: Raffel et al. 2020 (T5), sections 2.4 and 3.1.2.
    """

    kinds = frozenset({"classification", "pair_classification"})
    ranks = ((SEQUENCE,),)
    reads_texts = True
    reads_target = True
    writes_pieces = True

    def __init__(self, in_dim: int, num_labels: int, *, constrained: bool = True) -> None:
        super().__init__()
        self.constrained = constrained
        self.spelling = [[number] for number in range(num_labels)]
        """The pieces of each label, which a model sets after it built the head."""

    def forward(
        self, x_BTD: Tokens, mask_BT: Mask, *more: Int[Tensor, " B"] | PieceDecoder
    ) -> Tensor:
        """Return the scores of the labels, [B, L]; with the right labels only theirs, [B]."""
        *target, decoder = more
        assert isinstance(decoder, PieceDecoder), type(decoder)
        spelling = [torch.tensor(row, device=x_BTD.device) for row in self.spelling]
        if target:
            (target_B,) = target
            assert isinstance(target_B, Tensor), type(target_B)
            right = [spelling[idx] for idx in target_B.tolist()]
            target_BS = pad_sequence(right, batch_first=True, padding_value=PADDING_LABEL)
            return rate_pieces(decoder, x_BTD, mask_BT, target_BS).log_prob.sum(1)
        # one label after the other, which bounds the memory
        return torch.stack(
            [self._score(decoder, x_BTD, mask_BT, pieces_S) for pieces_S in spelling], 1
        )

    def _score(
        self, decoder: PieceDecoder, x_BTD: Tensor, mask_BT: Tensor, pieces_S: Tensor
    ) -> Tensor:
        found = rate_pieces(decoder, x_BTD, mask_BT, pieces_S.expand(x_BTD.shape[0], -1))
        score_B = found.log_prob.sum(1)
        if self.constrained:
            return score_B
        return hide_classes(score_B.clamp(min=LEAST_LOG_PROB), found.is_likeliest.all(1))

    def loss(self, scores_B: Float[Tensor, " B"], target_B: Tensor, mask_BT: Mask) -> Loss:
        return -scores_B.mean()

    def compute_chances(self, scores_BL: Scores) -> Scores:
        """Return the probability of each label; all 0 where the answer is none."""
        return scores_BL.softmax(-1) if self.constrained else scores_BL.exp()

    def decode(self, scores_BL: Scores, mask_BT: Mask) -> Decoded:
        """Return the labels, -1 where the answer is none, and their probabilities."""
        chances_BL = self.compute_chances(scores_BL)
        best = chances_BL.max(-1)
        return Decoded(best.indices.masked_fill(best.values == 0, PADDING_LABEL), chances_BL)
