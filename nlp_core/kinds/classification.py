"""One label of a text."""

from nlp_core.kinds.base import LABEL, TEXT_COLUMNS, Column, Kind, Target, UserFile, register

CLASSIFICATION = register(
    Kind(
        name="classification",
        columns=(*TEXT_COLUMNS, Column(LABEL, "text")),
        targets=(Target(LABEL, "text", "text"),),
        texts=("text",),
        readers=("tsv",),
        user_file=UserFile(("accuracy", "macro_f1")),
        has_confusion=True,
    )
)
