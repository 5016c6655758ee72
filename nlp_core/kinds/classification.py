"""One label of a text, or of two texts."""

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

CLASSIFICATION = register(
    Kind(
        name="classification",
        columns=(*TEXT_COLUMNS, Column(LABEL, "text")),
        targets=(Target(LABEL, "text", "text"),),
        texts=("text",),
        user_file=UserFile(("accuracy", "macro_f1")),
        has_confusion=True,
    )
)

PAIR_CLASSIFICATION = register(
    replace(
        CLASSIFICATION,
        name="pair_classification",
        columns=(*PAIR_COLUMNS, Column(LABEL, "text")),
        texts=PAIR_TEXTS,
        user_file=UserFile(("accuracy", "macro_f1"), texts=PAIR_TEXTS),
    )
)
