"""Embeddings of words, of symbols that annotate words, and of phrases in a gazetteer; numbers.

Shape letters: B batch, T tokens, D width, V words or symbols of the vocabulary, R rows of a
vector table, G types of phrases, W numbers of an example or token.
"""

from collections.abc import Callable
from typing import Annotated, ClassVar

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from nlp_core.blocks.base import (
    BLOCKS,
    NUMBERS,
    SEQUENCE,
    TOKEN_NUMBERS,
    VECTOR,
    WORDS,
    Block,
    Shape,
)
from nlp_core.blocks.masking import AnyMask, Mask, Tokens, zero_padding
from nlp_core.blocks.option import PositiveInt, Probability
from nlp_core.config.base import PATH_PART
from nlp_core.data.case import CaseVocabulary
from nlp_core.data.gazetteer import GazetteerVocabulary
from nlp_core.data.vocabulary import PADDING, UNKNOWN, NumberVocabulary

ProjectPath = Annotated[str, Field(pattern=rf"^{PATH_PART}(/{PATH_PART})*$")]


def draw_vectors(weight_VD: Tensor) -> Tensor:
    """Fill with numbers uniform in +-sqrt(3 / D), whose variance is 1 / D."""
    bound = (3.0 / weight_VD.shape[1]) ** 0.5
    return weight_VD.uniform_(-bound, bound)


@BLOCKS.register("word_embedding")
class WordEmbedding(Block):
    """Look up a vector for each word: y_t = W[id_t], 0 at padding.

    Each word of the training split has a row, trained or frozen. Any other word with a pretrained
    vector uses that vector, which never changes; the rest share the row of the unknown word.
    Training replaces a word that occurs once and has no pretrained vector by the unknown word, with
    probability `rare_unknown_prob`, so that the unknown row is trained.

    Args:
        dim: width D.
        vectors: name of a vector table in the cell's `init` folder; null: all rows are random.
        trainable: whether the rows of training words are trained.
        lowercase: fold case before the vocabulary is built; if false, a cased word without a vector
            starts from the vector of its lower-case form.
        digits_to_zero: replace every digit of a word without a vector by 0.
        min_count: rarer words of the training split are unknown, unless they have a vector.
        rare_unknown_prob: see above.
        on_cpu: whether the table stays in the CPU's memory when the model is on a GPU; only the
            vectors of a batch are moved there.

    Shape: ids [B, T], mask [B, T] to [B, T, D].

    Source: rows of unseen words: Ma and Hovy 2016, sec. 3.1; unknown singletons: Lample et al.
        2016, sec. 4.1.
    """

    ranks = ((WORDS,),)
    causal = True
    output_rank = SEQUENCE
    output_width = "dim"
    padding_idx: ClassVar[int] = PADDING

    def __init__(
        self,
        num_words: int,
        *,
        dim: PositiveInt,
        vectors: str | None = None,
        trainable: bool = True,
        lowercase: bool = False,
        digits_to_zero: bool = False,
        min_count: PositiveInt = 1,
        rare_unknown_prob: Probability = 0.0,
        on_cpu: bool = False,
    ) -> None:
        super().__init__()
        self.on_cpu = on_cpu
        self.rare_unknown_prob = rare_unknown_prob
        weight = draw_vectors(torch.empty(num_words, dim))
        weight[PADDING] = 0.0
        self.weight = nn.Parameter(weight, requires_grad=trainable)
        self.register_buffer("fixed", torch.zeros(0, dim), persistent=False)
        self.register_buffer("rare", torch.zeros(num_words, dtype=torch.bool), persistent=False)
        self.fixed: Tensor
        self.rare: Tensor
        """Which words of the vocabulary are sometimes replaced by the unknown word, [V]."""

    def find_word_table(self) -> nn.Module:
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "WordEmbedding":
        """Move or convert the table; on_cpu only converts it."""
        if not self.on_cpu:
            return super()._apply(fn, recurse)  # type: ignore[no-untyped-call, no-any-return]

        def convert(tensor: Tensor) -> Tensor:
            return tensor.to(fn(tensor.new_empty(0)).dtype)

        return super()._apply(convert, recurse)  # type: ignore[no-untyped-call, no-any-return]

    def load_vectors(
        self, vectors_RD: Float[Tensor, "R D"], row_of_word: Int[Tensor, " V"]
    ) -> None:
        """Set the pretrained vectors; words outside the vocabulary read them by id V + row.

        `row_of_word` maps each id of the vocabulary to its row in the table, or to -1.
        """
        self.fixed = vectors_RD
        known = row_of_word >= 0
        with torch.no_grad():
            self.weight[known] = vectors_RD[row_of_word[known]]

    def forward(self, ids_BT: Int[Tensor, "B T"], mask_BT: Mask) -> Tokens:
        ids_BT = ids_BT.to(self.weight.device)
        if self.training and self.rare_unknown_prob > 0:
            # a word outside the vocabulary has a vector, so it is not rare
            inside_BT = ids_BT < len(self.rare)
            rare_BT = self.rare[ids_BT.clamp(max=len(self.rare) - 1)] & inside_BT
            drop_BT = torch.rand(ids_BT.shape, device=ids_BT.device) < self.rare_unknown_prob
            ids_BT = torch.where(rare_BT & drop_BT, UNKNOWN, ids_BT)
        num_words = len(self.weight)
        vectors_BTD = functional.embedding(
            ids_BT.clamp(max=num_words - 1), self.weight, padding_idx=PADDING
        )
        outside_BT = ids_BT >= num_words
        if len(self.fixed) and bool(outside_BT.any()):
            fixed_BTD = functional.embedding((ids_BT - num_words).clamp(min=0), self.fixed)
            vectors_BTD = torch.where(outside_BT[..., None], fixed_BTD, vectors_BTD)
        return vectors_BTD.to(mask_BT.device)


@BLOCKS.register("category_embedding")
class CategoryEmbedding(Block):
    """Look up a vector for each token's symbol: y_t = W[id_t].

    It reads a column of one symbol for each token, such as `features.pos`. Symbols that are not in
    the training split share the row of the unknown symbol. That row is 0 and is only trained by
    symbols below `min_count` or hidden by `unknown_prob`.

    Args:
        dim: width D.
        min_count: rarer symbols of the training split are unknown.
        unknown_prob: probability that training takes a symbol for unknown.
        dropout: probability of a zero in the vectors.

    Shape: ids [B, T], mask [B, T] to [B, T, D].

    Source: Collobert et al. 2011 (natural language processing almost from scratch), section 3.2.3.
    """

    ranks = ((WORDS,),)
    causal = True
    output_rank = SEQUENCE
    output_width = "dim"

    def __init__(
        self,
        num_symbols: int,
        *,
        dim: PositiveInt,
        min_count: PositiveInt = 1,
        unknown_prob: Probability = 0.0,
        dropout: Probability = 0.0,
    ) -> None:
        super().__init__()
        weight = draw_vectors(torch.empty(num_symbols, dim))
        weight[: UNKNOWN + 1] = 0.0
        self.weight = nn.Parameter(weight)
        self.unknown_prob = unknown_prob
        self.dropout = dropout

    def forward(self, ids_BT: Int[Tensor, "B T"], mask_BT: Mask) -> Tokens:
        if self.training and self.unknown_prob > 0:
            hide_BT = torch.rand(ids_BT.shape, device=ids_BT.device) < self.unknown_prob
            ids_BT = ids_BT.masked_fill(hide_BT, UNKNOWN)
        x_BTD = functional.embedding(ids_BT, self.weight, padding_idx=PADDING)
        x_BTD = functional.dropout(x_BTD, self.dropout, self.training)
        return zero_padding(x_BTD, mask_BT)


@BLOCKS.register("case_embedding")
class CaseEmbedding(CategoryEmbedding):
    """Look up a vector for the case of each word: y_t = W[case of word t].

    The cases: lower (also of scripts without capitals), capitalised, upper, mixed, digits, letters
    with digits, and other signs. Next to a word_embedding that folds case, it keeps what that
    drops.

    Args:
        dim: width D.
        dropout: probability of a zero in the vectors.

    Shape: ids [B, T], mask [B, T] to [B, T, D].

    Source: Collobert et al. 2011 (natural language processing almost from scratch), section 3.2.2.
    Note: seven cases, of which the source has four.
    """

    vocabulary = CaseVocabulary

    def __init__(self, num_symbols: int, *, dim: PositiveInt, dropout: Probability = 0.0) -> None:
        super().__init__(num_symbols, dim=dim, dropout=dropout)


@BLOCKS.register("gazetteer_embedding")
class GazetteerEmbedding(Block):
    """Sum the vectors of the types of the phrase around a token: y_t = sum_k w_tk E_k.

    w_tk is the weight of type k of the phrase around the token, 0 outside phrases. Phrases are
    matched from the left, longest first, without overlaps. They are saved with the vocabulary; only
    training reads the file.

    Args:
        dim: width D.
        file: the gazetteer, lines `phrase TAB type [TAB weight]`; its path from the project's root.
        lowercase: ignore case.
        dropout: probability of a zero in the vectors.

    Shape: weights [B, T, G], mask [B, T] to [B, T, D].

    Source: Aly et al. 2018 (PyText), section 4.1, dictionary features.
    Note: the first token already reveals the phrase, so a language model cannot use this block.
    """

    ranks = ((WORDS,),)
    vocabulary = GazetteerVocabulary
    files = ("file",)
    output_rank = SEQUENCE
    output_width = "dim"

    def __init__(
        self,
        num_types: int,
        *,
        dim: PositiveInt,
        file: ProjectPath,
        lowercase: bool = False,
        dropout: Probability = 0.0,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(draw_vectors(torch.empty(num_types, dim)))
        self.dropout = dropout

    def forward(self, weights_BTG: Float[Tensor, "B T G"], mask_BT: Mask) -> Tokens:
        x_BTD = functional.dropout(weights_BTG @ self.weight, self.dropout, self.training)
        return zero_padding(x_BTD, mask_BT)


@BLOCKS.register("dense_features")
class DenseFeatures(Block):
    """Read numbers, scaled by the training split: y = z or W z + b, with z = (x - mean) / std.

    It reads a column of numbers of each example, such as `dense.votes`, of one number of each
    token, such as `token_dense.surprisal`, or of a vector of each token, such as
    `token_vectors.elmo`. Mean and deviation are those of the training split and are saved with the
    vocabulary; a constant number has deviation 1.

    Args:
        width: how many numbers the column has; 1 for one number of each token.
        hidden_dim: width D of the linear map; null: no map.

    Shape: numbers [B, W] to [B, D], or [B, T, W] and mask [B, T] to [B, T, D]; D = W without map.
    """

    ranks = ((NUMBERS, TOKEN_NUMBERS),)
    causal = True
    vocabulary = NumberVocabulary

    def __init__(
        self, num: int, *, width: PositiveInt = 1, hidden_dim: PositiveInt | None = None
    ) -> None:
        super().__init__()
        self.linear = None if hidden_dim is None else nn.Linear(width, hidden_dim)

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        dim = options.get("hidden_dim") or options.get("width", 1)
        assert isinstance(dim, int), dim
        return Shape(VECTOR if inputs[0].rank == NUMBERS else SEQUENCE, dim)

    def forward(self, x: Float[Tensor, "*N W"], mask: AnyMask) -> Float[Tensor, "*N D"]:
        return zero_padding(x if self.linear is None else self.linear(x), mask)
