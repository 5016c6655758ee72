"""A number of two texts."""

from dataclasses import replace

from nlp_core.kinds.base import LABEL, PAIR_COLUMNS, PAIR_TEXTS, Column, UserFile, register
from nlp_core.kinds.regression import REGRESSION

PAIR_REGRESSION = register(
    replace(
        REGRESSION,
        name="pair_regression",
        columns=(*PAIR_COLUMNS, Column(LABEL, "number")),
        texts=PAIR_TEXTS,
        user_file=UserFile(("pearson", "spearman"), texts=PAIR_TEXTS),
    )
)
