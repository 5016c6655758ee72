"""Any number of labels of a text."""

from nlp_core.kinds.base import LABELS, TEXT_COLUMNS, Column, Kind, Target, UserFile, register

MULTI_LABEL = register(
    Kind(
        name="multi_label",
        columns=(*TEXT_COLUMNS, Column(LABELS, "texts")),
        targets=(Target(LABELS, "texts", "texts"),),
        texts=("text",),
        user_file=UserFile(
            ("micro_f1", "macro_f1", "exact_match"), label=LABELS, keys=("label_separator",)
        ),
    )
)
