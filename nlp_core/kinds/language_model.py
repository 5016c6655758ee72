"""The next word of a text."""

from nlp_core.kinds.base import NEXT_WORD, TEXT_COLUMNS, Kind, Target, register

LANGUAGE_MODEL = register(
    Kind(
        name="language_model",
        columns=TEXT_COLUMNS,
        targets=(Target(NEXT_WORD, "number", "number"),),
    )
)
