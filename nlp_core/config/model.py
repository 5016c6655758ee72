"""A model file, zoo/*.json: inputs, layers, heads.

nlp_core.models checks the options of blocks and heads against their signatures.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field

from nlp_core.config.base import ClosedModel, join_keys, parse_config, read_mapping
from nlp_core.config.column import NUMBERS, PIECES, SYMBOLS, TOKEN_NUMBERS, WHOLE_TEXTS
from nlp_core.config.name import Name
from nlp_core.config.user_data import DataConfig, TrainingConfig
from nlp_core.errors import suggest

COLUMNS = (
    *(
        f"{text}{part}"
        for text in ("tokens", "tokens_a", "tokens_b")
        for part in ("", ".characters")
    ),
    *WHOLE_TEXTS,
    f"tokens{PIECES}",
    f"tokens_b{PIECES}",
)
FEATURE_PREFIXES = (SYMBOLS, NUMBERS, TOKEN_NUMBERS)
"""Prefixes of the columns that a task's reader adds."""


def _check_column(column: str) -> str:
    prefix, dot, name = column.partition(".")
    if column in COLUMNS or (prefix + dot in FEATURE_PREFIXES and name):
        return column
    allowed = [*COLUMNS, *(f"{item}NAME" for item in FEATURE_PREFIXES)]
    raise ValueError(f"found '{column}'. {suggest(column, allowed)}")


def find_axes(column: str) -> tuple[str, ...]:
    """Return the text whose tokens a column has a value for; () for numbers of an example."""
    text = column.partition(".")[0]
    if column.startswith(NUMBERS):
        return ()
    return ("tokens",) if f"{text}." in FEATURE_PREFIXES else (text,)


Column = Annotated[str, AfterValidator(_check_column)]


class OpenOptions(ClosedModel):
    """A record whose extra keys are the options of a block or head."""

    model_config = ConfigDict(extra="allow", frozen=True, use_attribute_docstrings=True)

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class LayerConfig(OpenOptions):
    """A registered block, or an earlier layer whose parameters it shares."""

    name: Name
    block: str
    """A registered block, or the name of another layer, which wins over a block of that name."""
    inputs: Annotated[list[str], Field(min_length=1)]
    """Names of model inputs or other layers."""


class HeadConfig(OpenOptions):
    head: str
    inputs: Annotated[list[str], Field(min_length=1)]
    """The layers that the head reads, mostly one."""
    weight: Annotated[float, Field(gt=0)] = 1.0
    """Factor on the head's loss in the sum over heads."""
    task: Name | None = None
    """The task of the head in a model of several tasks; null: the only one."""


class ModelConfig(ClosedModel):
    """A graph of blocks that ends in heads."""

    description: str
    source: str
    """Paper, table and row, or the origin of the network."""
    inputs: Annotated[dict[Name, Column], Field(min_length=1)]
    """Columns of the task: tokens or their characters; features.NAME, a symbol per token;
    dense.NAME and token_dense.NAME, numbers. A pretrained encoder reads texts (the one text or both
    of an example), text_a or text_b, or tokens.pieces; tokens_b.pieces are read after those of
    tokens_a."""
    layers: Annotated[list[LayerConfig], Field(min_length=1)]
    heads: Annotated[dict[Name, HeadConfig], Field(min_length=1)]
    notes: list[str] = Field(default_factory=list)
    """What to know before changing the file; JSON has no comments."""
    data: DataConfig | None = None
    """How `reglue train` reads files; null: guessed. Cells do not use it."""
    training: TrainingConfig | None = None
    """How `reglue train` trains; null: the defaults. Cells have a recipe in grid/ instead."""


def read_model(path: Path) -> ModelConfig:
    return parse_model(read_mapping(path), str(path))


def parse_model(value: Mapping[str, Any], where: str) -> ModelConfig:
    return parse_config(value, ModelConfig, where=where, name_place=_name_place)


def _name_place(value: object, location: list[Any]) -> str:  # Any: keys and positions
    match location:
        case ["layers", int(position), *rest]:
            layer = value["layers"][position] if isinstance(value, Mapping) else None
            name = layer.get("name") if isinstance(layer, Mapping) else None
            if not (name and isinstance(name, str)):
                name = None
            place = f"layer '{name}'" if name else f"layers: number {position + 1}"
        case ["heads", str(name), *rest]:
            place = f"head '{name}'"
        case _:
            return join_keys(value, location)
    return ": ".join([place, *([join_keys(value, rest)] if rest else [])])
