"""The closed models of tables of word vectors in sources/*.yaml."""

from typing import Annotated

from pydantic import Field

from nlp_core.config.base import ClosedModel
from nlp_core.config.reader import FileName


class PieceTableConfig(ClosedModel):
    """A table of an encoder's embeddings, of which the pieces that are whole words are taken."""

    tensor: str
    """Name of the table among the weights."""
    words: FileName
    """Member with the pieces, one a line in the order of the table."""


class VectorTableConfig(ClosedModel):
    """One table of word vectors."""

    file: FileName
    """Member that holds it: a word and its numbers a line, or the weights of an encoder."""
    dim: Annotated[int, Field(ge=1)]
    """Numbers a word; of an encoder's table as many principal components."""
    pieces: PieceTableConfig | None = None
    """Where the vectors stand among the weights of an encoder; null: the file is text."""
