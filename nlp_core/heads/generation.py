"""The head that writes a text word by word, or copies words of the text that it reads.

Shape letters: B batch, T tokens, S steps, E experts, D width of the input, H width of the decoder,
V symbols of a decoder, R hypotheses, A choices of a step (V + T).
"""

from collections.abc import Sequence
from typing import Annotated, Any

import torch
from jaxtyping import Int
from pydantic import Field
from torch import Tensor, nn

from nlp_core.blocks.masking import Mask, Tokens
from nlp_core.blocks.option import PositiveFloat, PositiveInt
from nlp_core.config.base import Whole
from nlp_core.errors import ConfigError
from nlp_core.heads.base import HEADS, HeadBatch
from nlp_core.heads.parsing import ExpertHead
from nlp_core.heads.pointer import PointerDecoder, State
from nlp_core.heads.search import BestChoices, search
from reglue_runtime.writing import FIRST, TextRules, TextSearch, draw_number

Share = Annotated[float, Field(gt=0.0, le=1.0)]
Penalty = Annotated[float, Field(ge=0.0)]


class TextWriter:
    """Hypotheses of texts, scored by the product of decoders' probabilities."""

    def __init__(
        self,
        decoders: Sequence[PointerDecoder],
        parts: Sequence[Tensor],
        mask_RT: Tensor,
        copies_RT: Tensor,
        options: TextSearch,
    ) -> None:
        self._pairs = list(zip(decoders, parts, strict=True))
        self._mask, self._temperature = mask_RT, options.temperature
        self._rules = TextRules(mask_RT.sum(1).cpu().numpy(), options.max_words)
        self._copies = copies_RT.clamp(min=0).cpu()
        self._states = [decoder.start(x_RTD, mask_RT) for decoder, x_RTD in self._pairs]
        self._read(torch.full((len(mask_RT),), -1, device=mask_RT.device))

    @property
    def done(self) -> Tensor:
        return torch.from_numpy(self._rules.done)

    def score(self) -> Tensor:
        log_RA = torch.stack(self._odds).sum(0).float()  # NumPy has no bfloat16
        self._rules.restrict(log_RA.numpy())  # in the memory of the tensor
        return (log_RA / self._temperature).log_softmax(-1)

    def advance(self, parent_R: Tensor, choice_R: Tensor) -> None:
        self._rules.advance(parent_R.cpu().numpy(), choice_R.cpu().numpy())
        parent_R, choice_R = parent_R.to(self._mask.device), choice_R.to(self._mask.device)
        self._states = [(state[0][:, parent_R], state[1][:, parent_R]) for state in self._states]
        self._read(choice_R)

    def _read(self, before_R: Tensor) -> None:
        states: list[State] = []
        self._odds: list[Tensor] = []
        for (decoder, x_RTD), state in zip(self._pairs, self._states, strict=True):
            states_R1H, read = decoder.read(before_R.unsqueeze(1), x_RTD, state)
            states.append(read)
            symbol_R1V, copy_R1T = decoder.rate(states_R1H, x_RTD, self._mask)
            # on the CPU, where sums at equal places have one order
            chance_RT = copy_R1T[:, 0].exp().cpu()
            chances_RA = torch.cat([symbol_R1V[:, 0].exp().cpu(), torch.zeros_like(chance_RT)], 1)
            self._odds.append(chances_RA.scatter_add(1, self._copies, chance_RT).log())
        self._states = states


@HEADS.register("seq2seq")
class SequenceHead(ExpertHead):
    """Write a text with an LSTM that attends to the tokens, and writes words or copies tokens.

    The words are the most frequent ones of the outputs of training. The probability of a word is
    that of writing it plus that of copying it from each of its places. So a word that training
    never showed can be copied. The loss is minus the log probability of the right words and the end
    of a text, a mean over the texts.

    Args:
        hidden_dim: width of the decoder.
        symbol_dim: width of the embedding of the word before.
        dropout: probability of a zero in the tokens, the words, and before the softmax.
        penalty: exponent of the length by which log probabilities are divided, so that a beam does
            not prefer short texts; 0: none.
        max_words: of an answer, with its end.
        top_p: draw each word from the likeliest ones, whose probabilities add up to at least this
            (nucleus sampling); null: search the likeliest text.
        temperature: by which log probabilities are divided; above 1 draws are more even.
        sampling_seed: of the draws. A text gets the same answer in every batch and on every
            machine.

    Shape: [B, T, D], right ids [B, S] to log probabilities [B, S, E].

    Raises:
        ConfigError: found a beam or a penalty with top_p, or a sampling_seed without it.

    Source: See et al. 2017 (pointer-generator networks), section 2.2; nucleus: Holtzman et al.
        2020 (neural text degeneration), section 3.1.
    Note: the attention is Luong's, computed only from the state, without coverage.
    """

    kinds = frozenset({"generation"})
    target = "output"
    reads_target = True
    expert = PointerDecoder
    num_reserved = FIRST

    def __init__(
        self,
        in_dim: int,
        num_labels: int,
        *,
        penalty: Penalty = 0.0,
        max_words: PositiveInt = 60,
        top_p: Share | None = None,
        temperature: PositiveFloat = 1.0,
        sampling_seed: Whole = 0,
        **options: Any,  # Any: those of the base class and of an expert
    ) -> None:
        super().__init__(in_dim, num_labels, **options)
        if top_p is not None and self.beam > 1:
            raise ConfigError(
                f"top_p: found {top_p} with a beam of {self.beam}, expected one of them: draw "
                "words, or search the likeliest text."
            )
        if top_p is not None and penalty:
            raise ConfigError(
                f"penalty: found {penalty:g} with top_p, whose words are drawn without a search "
                "that compares lengths; leave one of them out."
            )
        if top_p is None and sampling_seed:
            raise ConfigError(
                f"sampling_seed: found {sampling_seed} without top_p, which draws words; set "
                "top_p, or leave it out."
            )
        self.search = TextSearch(self.beam, penalty, max_words, top_p, temperature, sampling_seed)

    @property
    def decoders(self) -> list[PointerDecoder]:
        return [expert for expert in self.experts if isinstance(expert, PointerDecoder)]

    def read(self, batch: HeadBatch, *, informed: bool) -> tuple[Tensor, ...]:
        assert batch.copies is not None
        return (batch.copies, *super().read(batch, informed=informed))

    def forward(
        self,
        x_BTD: Tokens,
        mask_BT: Mask,
        copies_BT: Int[Tensor, "B T"],
        target_BS: Int[Tensor, "B S"] | None = None,
    ) -> Tensor:
        """Return the log probability of each right id by each expert, [B, S, E].

        Without the right ids, return log probability and ids of the answers, [B, 1 + S].
        """
        more = (copies_BT,) if target_BS is None else (copies_BT, target_BS)
        return self.write(x_BTD, mask_BT, more, right=target_BS is not None)

    def score(self, expert: nn.Module, x: Tensor, mask: Tensor, batch: Sequence[Tensor]) -> Tensor:
        copies_BT, target_BS = batch
        log_prob_BS: Tensor = expert(x, mask, target_BS, copies_BT)
        return log_prob_BS

    def find(
        self, parts: Sequence[Tensor], mask_BT: Tensor, batch: Sequence[Tensor]
    ) -> BestChoices:
        (copies_BT,), beam, options = batch, self.beam, self.search
        repeated = [part.repeat_interleave(beam, 0) for part in parts]
        rows = mask_BT.repeat_interleave(beam, 0), copies_BT.repeat_interleave(beam, 0)
        writer = TextWriter(self.decoders, repeated, *rows, options)
        pairs = zip(copies_BT.tolist(), mask_BT.tolist(), strict=True)
        keys = [[item for item, real in zip(*pair, strict=True) if real] for pair in pairs]
        return search(
            writer,
            batch=len(mask_BT),
            beam=beam,
            max_steps=options.max_words,
            penalty=options.penalty,
            top_p=options.top_p,
            draw=lambda place, step: draw_number(options.seed, keys[place], step),
        )
