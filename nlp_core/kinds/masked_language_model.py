"""The masked pieces of a corpus, which train an encoder."""

from nlp_core.kinds.base import MASKED, Column, Kind, Target, register

MASKED_LANGUAGE_MODEL = register(
    Kind(
        name="masked_language_model",
        columns=(Column("text", "text"), Column("tokens", "texts")),
        targets=(Target(MASKED, "number", "number"),),
        texts=("text",),
        is_auxiliary=True,
    )
)
