"""The tokens of each sentence of a document, as a model reads them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np

from nlp_core.data.split_column import Column
from nlp_core.data.vocabulary import NumberVocabulary, Options


class SizeVocabulary(NumberVocabulary):
    """Numbers that are not scaled."""

    @classmethod
    def learn(cls, columns: Sequence[Column], options: Options, init: Path) -> Self:
        return cls(np.zeros(1), np.ones(1))
