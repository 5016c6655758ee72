"""A model file, zoo/*.json: its closed model, overrides by a path of keys, and its text.

nlp_core.models checks the options of blocks and heads against their signatures.
"""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field

from nlp_core.config.base import ClosedModel, Name, Positive, join_keys, parse_config, read_mapping
from nlp_core.config.column import (
    NUMBERS,
    PIECES,
    SYMBOLS,
    TOKEN_NUMBERS,
    TOKEN_VECTORS,
    WHOLE_TEXTS,
)
from nlp_core.config.user_data import DataConfig, TrainingConfig
from nlp_core.errors import ConfigError, UsageError, suggest
from nlp_core.kinds import SENTENCES

TOKENS = ("tokens", "tokens_a", "tokens_b", "tokens_history")
COLUMNS = (
    *TOKENS,
    *(f"{text}.characters" for text in TOKENS),
    SENTENCES,
    *WHOLE_TEXTS,
    f"tokens{PIECES}",
    f"tokens_b{PIECES}",
)
FEATURE_PREFIXES = (SYMBOLS, NUMBERS, TOKEN_NUMBERS, TOKEN_VECTORS)
"""Prefixes of the columns that a task's reader adds."""
SECTIONS = ("inputs", "layers", "heads", "data", "training", "notes")
"""Keys of a file whose items have a line each."""
_compact = partial(json.dumps, ensure_ascii=False)


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

    model_config = ConfigDict(extra="allow", frozen=True)

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
    weight: Positive = 1.0
    """Factor on the head's loss in the sum over heads."""
    task: Name | None = None
    """The head's task in a multi-task model; null: the only one."""


class ModelConfig(ClosedModel):
    """A graph of blocks that ends in heads."""

    description: str
    source: str
    """Paper, table and row, or the origin of the network."""
    inputs: Annotated[dict[Name, Column], Field(min_length=1)]
    """Columns of the task: tokens or their characters; features.NAME, a symbol per token;
    dense.NAME, token_dense.NAME and token_vectors.NAME, numbers. A pretrained encoder reads texts
    (the one text or both of an example), text_a or text_b, or tokens.pieces; tokens_b.pieces are
    read after those of tokens_a. tokens_history are the earlier turns of a dialogue; sentences, the
    number of tokens of each sentence of a document."""
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
    name_place = partial(_name_place, value)
    return parse_config(value, ModelConfig, where=where, name_place=name_place)


def _name_place(model: Mapping[str, Any], location: list[Any]) -> str:  # Any: keys and positions
    match location:
        case ["layers", int(position), *rest]:
            place = f"layers: number {position + 1}"
            match model["layers"][position]:
                case {"name": str(name)} if name:
                    place = f"layer '{name}'"
        case ["heads", str(name), *rest]:
            place = f"head '{name}'"
        case _:
            return join_keys(location)
    return f"{place}: {join_keys(rest)}" if rest else place


def set_value(model: dict[str, Any], assignment: str) -> None:
    """Change one value of a model file in place.

    Args:
        model: the content of the file.
        assignment: `path.to.key=value`; an item of a list goes by its name or its position, as in
            `layers.lstm.hidden_dim=64` or `data.texts.0=title`. The value is JSON if it can be
            parsed, except in place of a text.

    Raises:
        ConfigError: there is no `=`, or the path does not exist.
    """
    path, sign, text = assignment.partition("=")
    keys = path.strip().split(".")
    if not sign or not all(keys):
        raise UsageError(
            f"--set {assignment}: expected a path of keys, = and a value, such as "
            "training.optimizer.lr=0.01 or layers.lstm.hidden_dim=64."
        )
    before = read_value(model, path.strip(), f"--set {assignment}")
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        value = text
    is_text = isinstance(before, str) and not isinstance(value, str | None)
    put_value(model, path.strip(), text if is_text else value, f"--set {assignment}")


def read_value(model: Mapping[str, Any], path: str, where: str) -> Any:  # Any: JSON holds anything
    """Return the value at a path of a model file, or None.

    Raises:
        ConfigError: the path leads through a value without keys, or an item that a list has not.
    """
    keys = path.split(".")
    place: Any = model
    for idx, name in enumerate(keys):
        if place is None:
            return None
        key = _find(place, name, f"{where}: {'.'.join(keys[:idx]) or 'the model file'}")
        place = place.get(key) if isinstance(place, dict) else place[key]
    return place


def put_value(model: dict[str, Any], path: str, value: object, where: str) -> None:
    """Set the value at a path of a model file in place; raises as `read_value`."""
    *keys, last = path.split(".")
    place: Any = model
    for idx, name in enumerate([*keys, last]):
        key = _find(place, name, f"{where}: {'.'.join(keys[:idx]) or 'the model file'}")
        if idx == len(keys):
            place[key] = value
            return
        before = place.get(key) if isinstance(place, dict) else place[key]
        if before is None:
            before = place[key] = {}
        place = before


def format_model(model: Mapping[str, Any]) -> str:
    blocks = []
    for key, value in model.items():
        lines = []
        if key in SECTIONS and isinstance(value, list):
            lines = [_compact(item) for item in value]
        elif key in SECTIONS and isinstance(value, dict):
            lines = [f"{_compact(name)}: {_compact(item)}" for name, item in value.items()]
        text = _compact(value)
        if lines:
            text = text[0] + "\n    " + ",\n    ".join(lines) + "\n  " + text[-1]
        blocks.append(f"  {_compact(key)}: {text}")
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def find_line(text: str, section: str, key: str) -> int:
    """Return the line, counted from 1, of a key of a section in the text of `format_model`."""
    lines = text.split("\n")
    start = next(i for i, line in enumerate(lines) if line.startswith(f'  "{section}"'))
    return next(i for i, line in enumerate(lines, 1) if i > start and f'    "{key}":' in line)


def _find(place: Any, key: str, where: str) -> Any:  # Any: JSON holds anything
    if isinstance(place, dict):
        return key
    if not isinstance(place, list):
        raise ConfigError(f"{where} has no keys.")
    names = [item.get("name") if isinstance(item, dict) else None for item in place]
    if key in names:
        return names.index(key)
    if key.isdecimal() and int(key) < len(place):
        return int(key)
    known = [name for name in names if name] or [str(idx) for idx in range(len(place))]
    raise ConfigError(f"{where} has none named '{key}'. {suggest(key, known)}")
