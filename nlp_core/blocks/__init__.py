"""Blocks, registered by name: layers whose output shapes are known before data is read."""

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
from nlp_core.registry import import_modules

import_modules(__name__, __path__)
