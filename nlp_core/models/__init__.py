"""Model graphs: planning with shapes, building, saving; and the encoders they may hold."""

# names them among the blocks
from nlp_core.encoders.encoder_decoder import PretrainedEncoderDecoder
from nlp_core.encoders.pretrained import PretrainedEncoder

__all__ = ["PretrainedEncoder", "PretrainedEncoderDecoder"]
