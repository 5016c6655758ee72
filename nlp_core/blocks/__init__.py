"""The block zoo: layers whose output shapes are known before data is read, found by name."""

from nlp_core.blocks.attention import CrossAttention, MatchAttention
from nlp_core.blocks.base import (
    BLOCKS,
    CHARACTERS,
    SEQUENCE,
    VECTOR,
    WORDS,
    Block,
    Shape,
    require_equal,
)
from nlp_core.blocks.character import CharCNN, CharLSTM
from nlp_core.blocks.combination import Add, Combination, Concat
from nlp_core.blocks.convolution import Conv, ConvPooling
from nlp_core.blocks.embedding import WordEmbedding
from nlp_core.blocks.feedforward import Dropout, Highway, LayerNorm, Linear
from nlp_core.blocks.pooling import LinearAttention, Pooling
from nlp_core.blocks.recurrent import BiLSTM

__all__ = [
    "BLOCKS",
    "CHARACTERS",
    "SEQUENCE",
    "VECTOR",
    "WORDS",
    "Add",
    "BiLSTM",
    "Block",
    "CharCNN",
    "CharLSTM",
    "Combination",
    "Concat",
    "Conv",
    "ConvPooling",
    "CrossAttention",
    "Dropout",
    "Highway",
    "LayerNorm",
    "Linear",
    "LinearAttention",
    "MatchAttention",
    "Pooling",
    "Shape",
    "WordEmbedding",
    "require_equal",
]
