"""Which candidates answer a question."""

from nlp_core.kinds.base import (
    GROUP,
    LABEL,
    PAIR_COLUMNS,
    PAIR_TEXTS,
    Column,
    Kind,
    Target,
    UserFile,
    register,
)

RANKING = register(
    Kind(
        name="ranking",
        columns=(*PAIR_COLUMNS, Column(LABEL, "text"), Column(GROUP, "count")),
        targets=(Target(LABEL, "text", "text"),),
        texts=PAIR_TEXTS,
        user_file=UserFile(
            ("map", "mrr"), texts=PAIR_TEXTS, keys=(GROUP, "choices", "choice_labels")
        ),
    )
)
