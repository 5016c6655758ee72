"""Pretrained encoders of the library transformers, as blocks."""
