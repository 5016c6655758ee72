"""Blocks, registered by name: layers whose output shapes are known before data is read."""

from nlp_core.blocks.attention import (
    BilinearAttention,
    CrossAttention,
    FullAttention,
    MatchAttention,
)
from nlp_core.blocks.attention_flow import BiDAF, Seq2SeqAttention
from nlp_core.blocks.base import (
    BLOCKS,
    CHARACTERS,
    GRID,
    NUMBERS,
    PIECES,
    SEQUENCE,
    TOKEN_NUMBERS,
    VECTOR,
    WORDS,
    Block,
    Shape,
    require_equal,
)
from nlp_core.blocks.character import CharCNN, CharLSTM, SubwordEmbedding
from nlp_core.blocks.combination import Add, Combination, Concat, Distance, Minus, Multiply
from nlp_core.blocks.convolution import Conv, Conv2D, ConvPooling
from nlp_core.blocks.dense import DenseFeatures
from nlp_core.blocks.downsampling import DynamicPooling, GridKMax, Pooling1D, Pooling2D
from nlp_core.blocks.embedding import CategoryEmbedding, GazetteerEmbedding, WordEmbedding
from nlp_core.blocks.feedforward import Dropout, Highway, LayerNorm, Linear
from nlp_core.blocks.gated_convolution import GatedCNN
from nlp_core.blocks.interaction import Interaction
from nlp_core.blocks.matrix import MatrixMultiply
from nlp_core.blocks.pooling import KMaxPooling, LinearAttention, Pooling, SelfAttentionPooling
from nlp_core.blocks.qrnn import QRNN
from nlp_core.blocks.recurrent import BiGRU, BiLSTM, ForwardLSTM
from nlp_core.blocks.self_attention import BiLSTMAttention, SlotAttention
from nlp_core.blocks.transformer import Transformer
