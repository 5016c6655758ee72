"""The closed model of a corpus of documents for pre-training, a part of sources/*.yaml."""

from typing import Annotated

from pydantic import Field

from nlp_core.config.base import ClosedModel
from nlp_core.config.reader import FileName


class CorpusHeldOutConfig(ClosedModel):
    """The documents that no encoder is trained on, and that measure it."""

    share: Annotated[float, Field(gt=0, lt=1)]
    """Share of the documents, each chosen by the hash of its id alone."""
    seed: Annotated[int, Field(ge=0)]
    """Seed of the choice."""


class CorpusConfig(ClosedModel):
    """Documents of paragraphs: JSON Lines of {"id", "title", "paragraphs": [...]}."""

    files: Annotated[list[FileName], Field(min_length=1)]
    """Members that hold documents, in their order."""
    documents: Annotated[int, Field(ge=1)]
    """Official number of documents of all files; any other number is refused."""
    held_out: CorpusHeldOutConfig
    left_out: list[Annotated[str, Field(min_length=1)]] = Field(default_factory=list)
    """Ids of documents that are in no part, such as those of a test set."""
