"""A label of a sentence and a tag of each of its words."""

from nlp_core.kinds.base import LABEL, ROW_CUTS, TAGS, Column, Kind, Target, UserFile, register

INTENT_SLOTS = register(
    Kind(
        name="intent_slots",
        columns=(
            Column("id", "count"),
            Column("tokens", "texts"),
            Column(TAGS, "texts"),
            Column(LABEL, "text"),
        ),
        targets=(Target(LABEL, "text", "text"), Target(TAGS, "texts", "texts", source="tags")),
        cuts=ROW_CUTS,
        user_file=UserFile(
            ("frame_accuracy", "intent_accuracy", "slot_f1"),
            texts=("tokens",),
            tags=TAGS,
            plain_metrics=("frame_accuracy", "intent_accuracy"),
        ),
    )
)
