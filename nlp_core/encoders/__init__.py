"""Pretrained encoders as blocks."""

from nlp_core.encoders.pretrained import PretrainedEncoder

__all__ = ["PretrainedEncoder"]
