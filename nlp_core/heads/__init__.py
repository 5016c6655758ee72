"""Task heads, registered by name: scores, a loss and predictions."""

from nlp_core.heads.base import HEADS, PADDING_LABEL, Decoded, Head, HeadBatch
from nlp_core.registry import import_modules

import_modules(__name__, __path__)
