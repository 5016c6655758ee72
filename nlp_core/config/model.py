"""The closed model of a model file, zoo/*.json: inputs, layers, heads.

What a layer's block or a head may set is checked against the block's own signature by
nlp_core.models; here its options are only carried.
"""

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from nlp_core.config.base import ClosedModel

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
Column = Annotated[str, Field(pattern=r"^tokens(_[ab])?(\.characters)?$")]


class OpenOptions(ClosedModel):
    """A record whose further keys are the options of what it names."""

    model_config = ConfigDict(extra="allow", frozen=True, use_attribute_docstrings=True)

    @property
    def options(self) -> dict[str, Any]:
        """The keys that the record itself does not know."""
        return dict(self.model_extra or {})


class LayerConfig(OpenOptions):
    """A layer: a registered block, or an earlier layer whose parameters it shares."""

    name: Name
    block: str
    """A registered block, or the name of an earlier layer."""
    inputs: Annotated[list[str], Field(min_length=1)]
    """Names of model inputs or of other layers."""


class HeadConfig(OpenOptions):
    """A head: what is predicted from a layer's output."""

    head: str
    """A registered head."""
    inputs: Annotated[list[str], Field(min_length=1, max_length=1)]
    """The layer that the head reads."""


class ModelConfig(ClosedModel):
    """A graph of blocks that ends in one or more heads."""

    description: str
    source: str
    """Paper, table and row, or what the net is taken from."""
    inputs: Annotated[dict[Name, Column], Field(min_length=1)]
    """What the graph reads: a column of the task, as words or as their characters."""
    layers: Annotated[list[LayerConfig], Field(min_length=1)]
    heads: Annotated[dict[Name, HeadConfig], Field(min_length=1)]
