"""A corpus of documents for pre-training, a part of sources/*.yaml."""

from typing import Annotated

from pydantic import Field

from nlp_core.config.base import ClosedModel
from nlp_core.config.name import FileName
from nlp_core.config.number import Count, Part, Whole


class CorpusHeldOutConfig(ClosedModel):
    """The documents that measure encoders and that none is trained on."""

    share: Part
    """Share of the documents, each chosen by the hash of its id."""
    seed: Whole


class CorpusConfig(ClosedModel):
    """Documents of paragraphs: JSON Lines of {"id", "title", "paragraphs": [...]}."""

    files: Annotated[list[FileName], Field(min_length=1)]
    """Members that hold documents, in their order."""
    documents: Count
    """Official number of documents of all files; any other number is an error."""
    held_out: CorpusHeldOutConfig
    left_out: list[Annotated[str, Field(min_length=1)]] = Field(default_factory=list)
    """Ids of documents that no part has, such as those of a test set."""
