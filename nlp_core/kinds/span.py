"""The place of an answer in a passage, if the question has one."""

from nlp_core.kinds.base import ANSWERS, PAIR_COLUMNS, Column, Kind, Target, UserFile, register

SPAN_LABELS = ["answerable", "unanswerable"]
"""Sorts of questions; a task has the first, or both."""

SPAN = register(
    Kind(
        name="span",
        columns=(
            PAIR_COLUMNS[0],
            Column("key", "text"),
            *PAIR_COLUMNS[1:],
            Column("starts_b", "places"),
            Column("ends_b", "places"),
            Column(ANSWERS, "texts"),
            Column("answerable", "flag"),
            Column("first", "count"),
            Column("last", "count"),
        ),
        targets=(Target(ANSWERS, "text", "texts"),),
        cuts=("row", "article", "paragraph"),
        user_file=UserFile(
            ("f1", "exact_match"), texts=("question", "context"), label=ANSWERS, formats=("squad",)
        ),
    )
)
