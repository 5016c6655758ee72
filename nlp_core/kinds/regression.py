"""A number of a text, or of two texts."""

from dataclasses import replace

from nlp_core.kinds.base import (
    LABEL,
    PAIR_COLUMNS,
    PAIR_TEXTS,
    TEXT_COLUMNS,
    Column,
    Kind,
    Target,
    UserFile,
    register,
)

REGRESSION = register(
    Kind(
        name="regression",
        columns=(*TEXT_COLUMNS, Column(LABEL, "number")),
        targets=(Target(LABEL, "number", "number"),),
        texts=("text",),
        user_file=UserFile(("pearson", "spearman")),
    )
)

PAIR_REGRESSION = register(
    replace(
        REGRESSION,
        name="pair_regression",
        columns=(*PAIR_COLUMNS, Column(LABEL, "number")),
        texts=PAIR_TEXTS,
        user_file=UserFile(("pearson", "spearman"), texts=PAIR_TEXTS),
    )
)
