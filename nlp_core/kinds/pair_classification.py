"""One label of two texts."""

from dataclasses import replace

from nlp_core.kinds.base import LABEL, PAIR_COLUMNS, PAIR_TEXTS, Column, UserFile, register
from nlp_core.kinds.classification import CLASSIFICATION

PAIR_CLASSIFICATION = register(
    replace(
        CLASSIFICATION,
        name="pair_classification",
        columns=(*PAIR_COLUMNS, Column(LABEL, "text")),
        texts=PAIR_TEXTS,
        readers=("mrpc", "tsv"),
        user_file=UserFile(("accuracy", "macro_f1"), texts=PAIR_TEXTS),
    )
)
