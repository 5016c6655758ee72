"""Closed models of files that a user writes, the fields they share, and reading those files.

An unknown key, a wrong type or a value out of range raises ConfigError with the file, the key, what
was found and what is allowed. YAML is read as version 1.1 and as version 1.2 of the language: a
value that they read differently (`no`, `1e-5`, `012`) is an error too.
"""

import json
import types
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from datetime import date
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from nlp_core.errors import ConfigError, suggest


class ClosedModel(BaseModel):
    """A frozen record without unknown keys."""

    # defer_build: a process validates few of these models, and building all delays its start
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        defer_build=True,
        allow_inf_nan=False,  # which no JSON file can hold
    )


T = TypeVar("T")
ModelT = TypeVar("ModelT", bound=BaseModel)
LAST_SEED = 2**32 - 1
"""The greatest seed that every library accepts."""
LONGEST_SHOWN, MOST_SHOWN = 200, 5
"""Most characters of a value, and most mistakes, in an error message."""


def _check_unique(items: list[T]) -> list[T]:
    if any(items.count(item) > 1 for item in items):
        raise ValueError(f"found {items}, expected each once.")
    return items


Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, lt=1)]
Part = Annotated[float, Field(gt=0, lt=1)]
Probability = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]
Whole = Annotated[int, Field(ge=0)]
Seed = Annotated[int, Field(ge=0, le=LAST_SEED)]
Distinct = AfterValidator(_check_unique)
"""Marks a list that holds nothing twice."""
Seeds = Annotated[list[Seed], Field(min_length=1), Distinct]
Text = Annotated[str, Field(min_length=1)]
NAME_PART = "[a-z][a-z0-9_]*"
Name = Annotated[str, Field(pattern=f"^{NAME_PART}$")]
"""Small letters, digits and underscores, a letter first."""
PATH_PART = r"[A-Za-z0-9_][A-Za-z0-9_.+-]*"
FileName = Annotated[str, Field(pattern=rf"^{PATH_PART}$")]
PROCESSED = "data/processed"
"""Where processed tasks, vectors and encoders are, and the groups of tasks."""
CELLS = "artifacts/cells/"
"""Where cells are: trained, pretrained or exported; below it a folder for each table."""
CELL = "cell.json"
"""The description of a cell, written last."""
HISTORY = "history.jsonl"
"""What the training of a seed logged: steps, validations."""
SEED = "seed-"
"""The folder of a seed of a cell, with its number."""
CellFolder = Annotated[str, Field(pattern=f"^{CELLS}{NAME_PART}/{NAME_PART}$")]


def name_folder(table: str, cell: str) -> str:
    """Return the folder of a cell, from the project's root."""
    return f"{CELLS}{table}/{cell}"


def name_predictions(name: str) -> str:
    """Return the path of predictions: of a task in a seed's folder, or of a way in an export's."""
    return f"predictions/{name}.parquet"


def check_known(
    where: str,
    sort: str,
    name: str | None,
    allowed: Iterable[str],
    error: type[Exception] = ValueError,
) -> None:
    """Raise an error, with the nearest name, unless a name is allowed or there is none."""
    if name is not None and name not in allowed:
        raise error(f"{where}: unknown {sort} '{name}'. {suggest(name, allowed)}")


def check_cycle(where: str, sources: Mapping[str, str | None]) -> None:
    """Raise ValueError if a name depends on itself; `where` is its key, with {} for the name."""
    try:
        TopologicalSorter(
            {name: [source] if source else [] for name, source in sources.items()}
        ).prepare()
    except CycleError as err:
        cycle = err.args[1][::-1]
        place = where.format(cycle[0])
        raise ValueError(f"{place}: found a cycle: {' from '.join(cycle)}.") from err


def read_config(path: Path, model: type[ModelT]) -> ModelT:
    return parse_config(read_mapping(path), model, where=str(path))


def read_mapping(path: Path) -> dict[str, Any]:
    """Read a YAML or JSON file whose top level is a mapping."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as err:
        raise ConfigError(f"{path}: no such file; check its name.") from err
    except IsADirectoryError as err:
        raise ConfigError(f"{path}: found a folder, expected a file; check its name.") from err
    except UnicodeDecodeError as err:
        raise ConfigError(f"{path}: not UTF-8 text ({err.reason} at byte {err.start}).") from err
    value = _load_json(path, text) if path.suffix == ".json" else deepcopy(_load_yaml(path, text))
    if not isinstance(value, dict):
        found = "nothing" if value is None else f"a {type(value).__name__}"
        raise ConfigError(f"{path}: found {found}, expected a mapping of keys to values.")
    return value


NamePlace = Callable[[list[Any]], str]
"""Return the name of a place for an error message, given the keys that lead to it."""


def join_keys(location: list[Any]) -> str:
    return ".".join(str(part) for part in location) or "(top level)"


def parse_config(
    value: object, model: type[ModelT], *, where: str, name_place: NamePlace = join_keys
) -> ModelT:
    """Check plain data against a closed model; `where` begins an error message.

    Raises:
        ConfigError: a paragraph that names the first mistakes.
    """
    try:
        return model.model_validate_json(json.dumps(value))
    except ValidationError as err:
        errors = err.errors(include_url=False)
        lines = [_explain(item, model, name_place) for item in errors[:MOST_SHOWN]]
        if len(errors) > MOST_SHOWN:
            lines.append(f"{len(errors) - MOST_SHOWN} more errors.")
        raise ConfigError(f"{where}: " + " ".join(lines)) from err


def _load_json(path: Path, text: str) -> Any:  # Any: JSON holds anything
    def closed(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        twice = sorted({key for key in keys if keys.count(key) > 1})
        if twice:
            name = next((item for key, item in pairs if key == "name"), None)
            place = f"the object named '{name}'" if name else "one object"
            raise ConfigError(f"{path}: found the key '{twice[0]}' twice in {place}; keep one.")
        return dict(pairs)

    try:
        return json.loads(text, object_pairs_hook=closed)
    except json.JSONDecodeError as err:
        place = f"line {err.lineno}, column {err.colno}"
        raise ConfigError(f"{path}: not valid JSON at {place}: {err.msg}.") from err
    except (RecursionError, ValueError) as err:
        raise ConfigError(f"{path}: cannot read this JSON: {err}.") from err


@lru_cache  # a report reads the file of a source for each of its cells
def _load_yaml(path: Path, text: str) -> Any:  # Any: YAML holds anything
    try:
        old = yaml.load(text, yaml.CSafeLoader)
        new = YAML(typ="safe").load(text)
    except (yaml.YAMLError, YAMLError, ValueError) as err:
        mark = getattr(err, "problem_mark", None)
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(err, "problem", None) or (
            f"{err}; quote a text" if isinstance(err, ValueError) else "cannot be parsed"
        )
        raise ConfigError(f"{path}: not valid YAML{place}: {problem}.") from err
    try:
        _check_same(old, new, path, "")
    except RecursionError as err:
        raise ConfigError(
            f"{path}: found a value that contains itself, expected none; write it out."
        ) from err
    return new


def _check_same(old: object, new: object, path: Path, key: str) -> None:
    if isinstance(old, dict) and isinstance(new, dict) and len(old) == len(new):
        for (old_key, old_item), (new_key, new_item) in zip(old.items(), new.items(), strict=True):
            _check_same(old_key, new_key, path, f"{key}.{new_key}")
            _check_same(old_item, new_item, path, f"{key}.{new_key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for idx, (old_item, new_item) in enumerate(zip(old, new, strict=True)):
            _check_same(old_item, new_item, path, f"{key}[{idx}]")
    elif type(old) is not type(new) or repr(old) != repr(new):  # NaN is not equal to itself
        raise ConfigError(
            f"{path}: {key.lstrip('.')}: YAML 1.1 reads {old!r} here and YAML 1.2 reads {new!r}; "
            "expected the same value. Quote a text; write a float with a dot (1.0e-5), a boolean "
            "as true or false."
        )
    elif not isinstance(new, dict | list | str | int | float | None):
        sort = "date" if isinstance(new, date) else type(new).__name__
        raise ConfigError(
            f"{path}: {key.lstrip('.')}: found the {sort} {new}, expected a text; quote it."
        )


def _explain(error: ErrorDetails, model: type[BaseModel], name_place: NamePlace) -> str:
    """Turn a pydantic error into a sentence: key, found, expected, nearest name."""
    location = [part for part in error["loc"] if not str(part).startswith("function-")]
    key = name_place(location)
    found = repr(error["input"])
    if len(found) > LONGEST_SHOWN:
        found = f"{found[:LONGEST_SHOWN]} ..."
    match error["type"]:
        case "extra_forbidden":
            names = _list_keys(model, location[:-1])
            return f"{key}: unknown key. {suggest(str(location[-1]), names)}"
        case "missing":
            return f"{key}: this key is missing; expected a value."
        case "value_error":
            return f"{key}: {error['ctx']['error']}" if location else str(error["ctx"]["error"])
        case "literal_error" | "enum":
            allowed = error["ctx"]["expected"].replace(" or ", ", ").replace("'", "").split(", ")
            return f"{key}: found {found}. {suggest(str(error['input']), allowed)}"
        case _:
            return f"{key}: found {found}; {error['msg'][:1].lower()}{error['msg'][1:]}."


def _list_keys(form: Any, location: list[Any]) -> list[str]:  # Any: a type form
    """Return the keys of the model at a location, which may name the members of unions."""
    origin, members = get_origin(form), get_args(form)
    if origin is Annotated:
        return _list_keys(members[0], location)
    if origin in (Union, types.UnionType):
        return next(filter(None, (_list_keys(item, location) for item in members)), [])
    if origin in (dict, list, tuple):
        return _list_keys(members[-1], location[1:])
    if not (isinstance(form, type) and issubclass(form, BaseModel)):
        return []
    if not location:
        return list(form.model_fields)
    part, *rest = location
    if part in form.model_fields:
        return _list_keys(form.model_fields[part].annotation, rest)
    tag = form.model_fields.get("name")
    return _list_keys(form, rest) if tag and part in get_args(tag.annotation) else []
