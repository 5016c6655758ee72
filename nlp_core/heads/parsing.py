"""Heads that write the tree of a sentence: by shift and reduce, or symbol by symbol with copies.

Shape letters: B batch, T tokens, S steps, E experts, D width of the input, R hypotheses, A actions.
"""

from abc import abstractmethod
from collections.abc import Sequence
from copy import deepcopy
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nlp_core.blocks.base import SEQUENCE
from nlp_core.blocks.masking import Mask, Tokens, count_tokens
from nlp_core.blocks.option import PositiveInt
from nlp_core.errors import ConfigError
from nlp_core.heads.base import HEADS, PADDING_LABEL, Decoded, Head, Loss
from nlp_core.heads.grammar import Constraint, Grammar, trace
from nlp_core.heads.pointer import Pointer, PointerDecoder
from nlp_core.heads.rnng import TreeNetwork, TreeScorer
from nlp_core.heads.search import BestChoices, search
from reglue_runtime.tree import OPEN, REDUCE, SHIFT, count_steps
from reglue_runtime.tree_writing import TreeRules


class WritingHead(Head):
    """Write an answer step by step; `decode` gets what a beam search in `forward` found.

    Args:
        beam: hypotheses of the search; 1: greedy.
    """

    ranks = ((SEQUENCE,),)

    def __init__(self, *, beam: PositiveInt = 1) -> None:
        super().__init__()
        self.beam = beam

    def loss(self, scores: Tensor, target_BS: Tensor, mask_BT: Mask) -> Loss:
        """Return minus the summed log probabilities, divided by the number of sentences."""
        return -scores.sum() / self.count_terms(target_BS, mask_BT)

    def count_terms(self, target: Tensor, where: Tensor | None) -> Tensor:
        """Return the number of sentences with tokens, at least 1."""
        assert where is not None
        return where.any(1).sum().clamp(min=1)

    def decode(self, found_BS: Float[Tensor, "B S"], mask_BT: Mask) -> Decoded:
        """Return the steps of the best answers, -1 after their end, and their probabilities."""
        return Decoded(found_BS[:, 1:].long(), found_BS[:, :1].exp())


class ExpertHead(WritingHead):
    """Write an answer step by step with several experts.

    The input's width is split into equal parts, one for each. An expert is a network of its own and
    has a loss of its own; together they choose by the product of their probabilities.

    Args:
        experts: networks that choose together.
    """

    expert: ClassVar[type[nn.Module]]
    """The network of `width, num_symbols` that an expert is; its options are the head's too."""

    num_reserved: ClassVar[int] = 0
    """How many numbers of an expert's symbols come before those of the labels."""

    def __init__(
        self,
        in_dim: int,
        num_labels: int,
        *,
        experts: PositiveInt = 1,
        beam: PositiveInt = 1,
        **options: Any,  # Any: those of an expert
    ) -> None:
        super().__init__(beam=beam)
        if in_dim % experts:
            raise ConfigError(
                f"experts: found {experts} and an input of width {in_dim}, expected a width that "
                "they can share equally; concatenate one layer for each expert."
            )
        self.width = in_dim // experts
        self.experts = nn.ModuleList(
            self.expert(self.width, self.num_reserved + num_labels, **options)
            for _ in range(experts)
        )

    def join(self, others: Sequence["ExpertHead"]) -> "ExpertHead":
        """Return a head with the experts of trained heads of one class, for their joined inputs."""
        joined = deepcopy(self)
        joined.experts = nn.ModuleList(item for head in (self, *others) for item in head.experts)
        return joined

    @abstractmethod
    def score(self, expert: nn.Module, x: Tensor, mask: Tensor, batch: Sequence[Tensor]) -> Tensor:
        """Return the log probability of each right step, 0 at padding, [B, S]."""

    @abstractmethod
    def find(
        self, parts: Sequence[Tensor], mask_BT: Tensor, batch: Sequence[Tensor]
    ) -> BestChoices:
        """Return the best answers; `parts` are the inputs of the experts."""

    def write(
        self, x_BTD: Tensor, mask_BT: Tensor, more: Sequence[Tensor], *, right: bool
    ) -> Tensor:
        """Return log probabilities of the right steps, or of answers with their steps after it."""
        parts = x_BTD.chunk(len(self.experts), -1)
        if right:
            pairs = zip(self.experts, parts, strict=True)
            scores_BSE = torch.stack([self.score(*pair, mask_BT, more) for pair in pairs], -1)
            return scores_BSE.masked_fill(~mask_BT.any(1).view(-1, 1, 1), 0.0)
        with torch.no_grad():
            found = self.find(parts, mask_BT, more)
        return found.join()


@runtime_checkable
class Scorer(Protocol):
    """Scores the next actions of hypotheses; `read` are the tokens that each has written, [R]."""

    def score(self, read_R: Tensor) -> Tensor: ...
    def advance(self, parent_R: Tensor, action_R: Tensor, read_R: Tensor) -> None: ...


class TreeWriter:
    """Hypotheses of trees, scored by the product of scorers' probabilities."""

    def __init__(self, scorers: Sequence[Scorer], grammar: Grammar, lengths_R: Tensor) -> None:
        self._scorers = scorers
        self._rules = TreeRules(lengths_R.cpu().numpy(), note=grammar.describe())
        self._device = lengths_R.device

    @property
    def done(self) -> Tensor:
        return torch.from_numpy(self._rules.done)

    @property
    def read(self) -> Tensor:
        return torch.from_numpy(self._rules.read).to(self._device)

    def score(self) -> Tensor:
        read_R = self.read
        log_RA = torch.stack([scorer.score(read_R) for scorer in self._scorers]).sum(0)
        allowed_RA = torch.from_numpy(self._rules.allow(log_RA.shape[1])).to(self._device)
        # renormalised, since the answer can only be one that is allowed
        return log_RA.masked_fill(~allowed_RA, -torch.inf).log_softmax(-1)

    def advance(self, parent_R: Tensor, choice_R: Tensor) -> None:
        moved = parent_R.to(self._device), choice_R.to(self._device)
        read_R = self.read[moved[0]]
        for scorer in self._scorers:
            scorer.advance(*moved, read_R)
        self._rules.advance(parent_R.cpu().numpy(), choice_R.cpu().numpy())


class ParsingHead(ExpertHead):
    """Write a tree; see `ExpertHead`.

    Args:
        max_open: constituents that may be open at a time.
        constraints: what an answer may be. `grammar`: a tree over the sentence whose labels are
            inside each other as in training; `brackets`: any tree over the sentence.
    """

    kinds = frozenset({"parsing"})
    target = "tree"
    reads_target = True

    def __init__(
        self,
        in_dim: int,
        num_labels: int,
        *,
        max_open: PositiveInt = 10,
        constraints: Constraint = "grammar",
        **options: Any,  # Any: those of an expert
    ) -> None:
        super().__init__(in_dim, num_labels, **options)
        self.grammar = Grammar(num_labels, max_open=max_open, constraint=constraints)

    def join(self, others: Sequence[ExpertHead]) -> ExpertHead:
        joined = super().join(others)
        assert isinstance(joined, ParsingHead)
        for head in others:
            assert isinstance(head, ParsingHead)
            joined.grammar.seen |= head.grammar.seen
        return joined

    def remember(self, target: Tensor) -> None:
        self.grammar.learn(trace(target).edges)

    @abstractmethod
    def start(self, expert: nn.Module, x_RTD: Tensor, mask_RT: Tensor, max_steps: int) -> Scorer:
        """Return the scorer of an expert."""

    def forward(
        self, x_BTD: Tokens, mask_BT: Mask, target_BS: Int[Tensor, "B S"] | None = None
    ) -> Tensor:
        """Return the log probability of each right action by each expert, [B, S, E].

        Without the right actions, return log probability and actions of the best trees, [B, 1 + S].
        """
        if target_BS is None:
            return self.write(x_BTD, mask_BT, (), right=False)
        if self.training:
            self.remember(target_BS)
        return self.write(x_BTD, mask_BT, (target_BS,), right=True)

    def find(
        self, parts: Sequence[Tensor], mask_BT: Tensor, batch: Sequence[Tensor]
    ) -> BestChoices:
        mask_RT = mask_BT.repeat_interleave(self.beam, 0)
        max_steps = count_steps(int(count_tokens(mask_BT).max()), self.grammar.max_open)
        scorers = [
            self.start(expert, part.repeat_interleave(self.beam, 0), mask_RT, max_steps)
            for expert, part in zip(self.experts, parts, strict=True)
        ]
        writer = TreeWriter(scorers, self.grammar, count_tokens(mask_RT))
        return search(writer, batch=len(mask_BT), beam=self.beam, max_steps=max_steps)


@HEADS.register("rnng")
class RNNGHead(ParsingHead):
    """Parse by shift and reduce with a recurrent neural network grammar, from top to bottom.

    p(action) = softmax(V relu(W [stack; buffer; actions] + b)): the top of a stack LSTM over tokens
    and constituents, the vector of the next token, and an LSTM over the actions before. An action
    shifts the next token, opens a constituent, or closes the last one, whose parts then become one
    vector c = tanh(C [forward LSTM; backward LSTM] + d) over its label and parts. The loss is minus
    the log probability of the right actions of a sentence, a mean over the sentences.

    Args:
        hidden_dim: width of the stack, of the past actions and of the hidden layer.
        action_dim: width of the embedding of an action.
        composition: bilstm, or sum: c = tanh(C (label + sum of the parts) + d).
        parts: what the next action is scored from.
        dropout: probability of a zero in the inputs of the stack and of the hidden layer.
        constraints: grammar or brackets; this parser can only write trees.

    Shape: [B, T, D], right actions [B, S] to log probabilities [B, S, E].

    Source: Dyer et al. 2016 (recurrent neural network grammars), section 4, discriminative parser;
        Gupta et al. 2018 (semantic parsing for task-oriented dialog), section 3; the product of
        experts: Einolghozati et al. 2018, section 3.
    Note: the buffer is the layer below, which may look at all tokens. In the sentence's batch the
        stacks advance together. A softmax over all actions is learnt, and renormalised over the
        possible ones in the search.
    """

    expert = TreeNetwork

    def __init__(
        self,
        in_dim: int,
        num_labels: int,
        *,
        constraints: Literal["grammar", "brackets"] = "grammar",
        **options: Any,  # Any: those of the base classes
    ) -> None:
        super().__init__(in_dim, num_labels, constraints=constraints, **options)

    def score(self, expert: nn.Module, x: Tensor, mask: Tensor, batch: Sequence[Tensor]) -> Tensor:
        log_prob_BS: Tensor = expert(x, mask, *batch)
        return log_prob_BS

    def start(self, expert: nn.Module, x_RTD: Tensor, mask_RT: Tensor, max_steps: int) -> Scorer:
        assert isinstance(expert, TreeNetwork), type(expert)
        return TreeScorer(expert, x_RTD, mask_RT, max_steps=max_steps)


def list_actions(symbol_RA: Tensor, copy_RT: Tensor, read_R: Tensor) -> Tensor:
    """Return the log probability of each action and, after them, of a copy of each token.

    Args:
        read_R: tokens that are written; a shift copies the next one.
    """
    place_R1 = read_R.clamp(max=copy_RT.shape[1] - 1).unsqueeze(1)
    return torch.cat([copy_RT.gather(1, place_R1), symbol_RA[:, REDUCE:], copy_RT], 1)


class SymbolScorer:
    """Scores the symbols and copies that write a tree."""

    def __init__(self, decoder: PointerDecoder, x_RTD: Tensor, mask_RT: Tensor) -> None:
        self._decoder, self._x, self._mask = decoder, x_RTD, mask_RT
        self._state = decoder.start(x_RTD, mask_RT)
        before = torch.full((len(x_RTD), 1), PADDING_LABEL, device=x_RTD.device)
        self._read(before)

    def _read(self, before_R1: Tensor) -> None:
        states_R1H, self._state = self._decoder.read(before_R1, self._x, self._state)
        self._odds = self._decoder.rate(states_R1H, self._x, self._mask)

    def score(self, read_R: Tensor) -> Tensor:
        return list_actions(self._odds.symbol[:, 0], self._odds.copy[:, 0], read_R)

    def advance(self, parent_R: Tensor, action_R: Tensor, read_R: Tensor) -> None:
        self._state = (self._state[0][:, parent_R], self._state[1][:, parent_R])
        is_shift_R = action_R == SHIFT
        written_R = torch.where(is_shift_R, self._decoder.num_symbols + read_R, action_R)
        self._read(written_R.unsqueeze(1))


class SymbolParsingHead(ParsingHead):
    """Write the symbols of a tree, and copies of the tokens, with experts that are pointers."""

    num_reserved = OPEN

    def score(self, expert: nn.Module, x: Tensor, mask: Tensor, batch: Sequence[Tensor]) -> Tensor:
        """Return the log probability of each right action, a shift being a copy of a token."""
        assert isinstance(expert, Pointer), type(expert)
        (target_BS,) = batch
        is_shift_BS = target_BS == SHIFT
        place_BS = is_shift_BS.cumsum(1) - 1 + expert.num_symbols
        place_T = torch.arange(x.shape[1], device=x.device) + expert.num_symbols
        target_BS = torch.where(is_shift_BS, place_BS, target_BS)
        log_prob_BS: Tensor = expert(x, mask, target_BS, place_T.expand(len(x), -1))
        return log_prob_BS


@HEADS.register("seq2seq_parsing")
class SequenceParsingHead(SymbolParsingHead):
    """Write a tree symbol by symbol with an LSTM that attends to the tokens and copies them.

    A step opens a constituent, closes the last one, or copies a token, whose place is pointed at by
    the attention. The mixture of both is that of a pointer-generator network. The loss is minus the
    log probability of the right symbols of a sentence, a mean over the sentences.

    Args:
        hidden_dim: width of the decoder.
        symbol_dim: width of the embedding of the symbol before.
        dropout: probability of a zero in the tokens, the symbols, and before the softmax.
        constraints: also `none`: any symbols in any order, which may be no tree. They end with the
            bracket that closes the first one.

    Shape: [B, T, D], right actions [B, S] to log probabilities [B, S, E].

    Source: See et al. 2017 (pointer-generator networks), section 2.2; trees as its output: Rongali
        et al. 2020, section 3.
    Note: the attention is Luong's, computed only from the state.
    """

    expert = PointerDecoder

    def start(self, expert: nn.Module, x_RTD: Tensor, mask_RT: Tensor, max_steps: int) -> Scorer:
        assert isinstance(expert, PointerDecoder), type(expert)
        return SymbolScorer(expert, x_RTD, mask_RT)
