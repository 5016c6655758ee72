"""Model graphs: planning with shapes, building, saving; and the encoders they may hold."""

from nlp_core.encoders.pretrained import PretrainedEncoder  # names it among the blocks

__all__ = ["PretrainedEncoder"]
