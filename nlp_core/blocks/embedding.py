"""Word embeddings: trained rows, fixed pretrained rows, rare words that become unknown.

Shape letters: B batch, T tokens, D width, V words of the vocabulary, R rows of the vector table.
"""

from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from nlp_core.blocks.base import BLOCKS, SEQUENCE, WORDS, Block
from nlp_core.blocks.option import PositiveInt, Probability
from nlp_core.data.vocabulary import PADDING, UNKNOWN


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

    Shape: ids [B, T], mask [B, T] to [B, T, D].

    Source: rows of unseen words: Ma and Hovy 2016, sec. 3.1; unknown singletons: Lample et al.
        2016, sec. 4.1.
    Note: words without a vector start uniform in +-sqrt(3/D), as in both.
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
    ) -> None:
        super().__init__()
        self.rare_unknown_prob = rare_unknown_prob
        bound = (3.0 / dim) ** 0.5
        weight = torch.empty(num_words, dim).uniform_(-bound, bound)
        weight[PADDING] = 0.0
        self.weight = nn.Parameter(weight, requires_grad=trainable)
        self.register_buffer("fixed", torch.zeros(0, dim), persistent=False)
        self.register_buffer("rare", torch.zeros(num_words, dtype=torch.bool), persistent=False)
        self.fixed: Tensor
        self.rare: Tensor

    def find_word_table(self) -> nn.Module:
        return self

    def load_vectors(
        self, vectors_RD: Float[Tensor, "R D"], row_of_word: Int[Tensor, " V"]
    ) -> None:
        """Set the pretrained vectors.

        Args:
            vectors_RD: the whole table; words outside the vocabulary read it by id V + row.
            row_of_word: for each id of the vocabulary its row in the table, or -1.
        """
        self.fixed = vectors_RD
        known = row_of_word >= 0
        with torch.no_grad():
            self.weight[known] = vectors_RD[row_of_word[known]]

    def mark_rare(self, rare_V: Bool[Tensor, " V"]) -> None:
        """Set which words of the vocabulary are sometimes replaced by the unknown word."""
        self.rare = rare_V

    def forward(
        self, ids_BT: Int[Tensor, "B T"], mask_BT: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T D"]:
        if self.training and self.rare_unknown_prob > 0:
            rare_BT = self.rare[ids_BT.clamp(max=len(self.rare) - 1)]
            drop_BT = torch.rand(ids_BT.shape, device=ids_BT.device) < self.rare_unknown_prob
            ids_BT = torch.where(rare_BT & drop_BT, UNKNOWN, ids_BT)
        num_words = len(self.weight)
        vectors_BTD = F.embedding(ids_BT.clamp(max=num_words - 1), self.weight, padding_idx=PADDING)
        outside_BT = ids_BT >= num_words
        if len(self.fixed) and bool(outside_BT.any()):
            fixed_BTD = F.embedding((ids_BT - num_words).clamp(min=0), self.fixed)
            vectors_BTD = torch.where(outside_BT[..., None], fixed_BTD, vectors_BTD)
        return vectors_BTD
