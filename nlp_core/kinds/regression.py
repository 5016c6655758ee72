"""A number of a text."""

from nlp_core.kinds.base import LABEL, TEXT_COLUMNS, Column, Kind, Target, UserFile, register

REGRESSION = register(
    Kind(
        name="regression",
        columns=(*TEXT_COLUMNS, Column(LABEL, "number")),
        targets=(Target(LABEL, "number", "number"),),
        texts=("text",),
        readers=("tsv",),
        user_file=UserFile(("pearson", "spearman")),
    )
)
