"""A tag of each word."""

from nlp_core.kinds.base import ROW_CUTS, TABLES, TAGS, Column, Kind, Target, UserFile, register

TAGGING = register(
    Kind(
        name="tagging",
        columns=(Column("id", "count"), Column("tokens", "texts"), Column(TAGS, "texts")),
        targets=(Target(TAGS, "texts", "texts"),),
        cuts=ROW_CUTS,
        user_file=UserFile(
            ("f1", "accuracy"),
            texts=("tokens",),
            label=TAGS,
            formats=(*TABLES, "conll"),
            plain_metrics=("accuracy",),
        ),
    )
)
