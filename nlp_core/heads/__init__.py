"""Task heads, registered by name: scores, a loss and predictions."""

from nlp_core.heads.base import HEADS, PADDING_LABEL, Decoded, Head, HeadBatch
from nlp_core.heads.encoder_decoder import EncoderDecoderTaggingHead
from nlp_core.heads.language_model import LanguageModelHead
from nlp_core.heads.masked_language_model import MaskedLanguageModelHead
from nlp_core.heads.ranking import ListwiseRankingHead, PairwiseRankingHead
from nlp_core.heads.sentence import ClassificationHead, MultiLabelHead, RegressionHead
from nlp_core.heads.span import SpanHead
from nlp_core.heads.stochastic_answer import SANClassificationHead, SANRegressionHead
from nlp_core.heads.tagging import CRFTaggingHead, TaggingHead
