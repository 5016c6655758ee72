"""Closed models of files that a user writes, and reading those files.

An unknown key, a wrong type or a value out of range raises ConfigError with the file, the key, what
was found and what is allowed. YAML is read as version 1.1 and as version 1.2 of the language: a
value that they read differently (`no`, `1e-5`, `012`) is an error too.
"""

import json
import types
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from nlp_core.errors import ConfigError, suggest


class ClosedModel(BaseModel):
    """A frozen record without unknown keys."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, strict=True
    )


ModelT = TypeVar("ModelT", bound=BaseModel)
LAST_SEED = 2**32 - 1
"""The greatest seed that every library accepts."""
LONGEST_SHOWN, MOST_SHOWN = 200, 5
"""Most characters of a value, and most mistakes, in an error message."""
Seed = Annotated[int, Field(ge=0, le=LAST_SEED)]


def read_config(path: Path, model: type[ModelT]) -> ModelT:
    return parse_config(read_mapping(path), model, where=str(path))


def read_mapping(path: Path) -> dict[str, Any]:
    """Read a YAML or JSON file whose top level is a mapping."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as err:
        raise ConfigError(f"{path}: there is no such file; check its name.") from err
    except UnicodeDecodeError as err:
        raise ConfigError(f"{path}: not UTF-8 text ({err.reason} at byte {err.start}).") from err
    value = _load_json(path, text) if path.suffix == ".json" else _load_yaml(path, text)
    if not isinstance(value, dict):
        found = "nothing" if value is None else f"a {type(value).__name__}"
        raise ConfigError(f"{path}: found {found}, expected a mapping of keys to values.")
    return value


NamePlace = Callable[[object, list[Any]], str]
"""Return the name of a place in plain data for an error message, given the keys that lead to it."""


def join_keys(value: object, location: list[Any]) -> str:
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
        errors = [dict(item) for item in err.errors(include_url=False)]
        name = partial(name_place, value)
        lines = [_explain(item, model, name) for item in errors[:MOST_SHOWN]]
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


def _load_yaml(path: Path, text: str) -> Any:  # Any: YAML holds anything
    try:
        old = yaml.safe_load(text)
        new = YAML(typ="safe", pure=True).load(text)
    except (yaml.YAMLError, YAMLError, ValueError) as err:
        mark = getattr(err, "problem_mark", None)
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(err, "problem", None) or (
            f"{err}; quote a text" if isinstance(err, ValueError) else "cannot be parsed"
        )
        raise ConfigError(f"{path}: not valid YAML{place}: {problem}.") from err
    _check_same(old, new, path, "")
    return new


def _check_same(old: object, new: object, path: Path, key: str) -> None:
    if isinstance(old, dict) and isinstance(new, dict) and len(old) == len(new):
        for (old_key, old_item), (new_key, new_item) in zip(old.items(), new.items(), strict=True):
            _check_same(old_key, new_key, path, f"{key}.{new_key}")
            _check_same(old_item, new_item, path, f"{key}.{new_key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for idx, (old_item, new_item) in enumerate(zip(old, new, strict=True)):
            _check_same(old_item, new_item, path, f"{key}[{idx}]")
    elif type(old) is not type(new) or old != new:
        raise ConfigError(
            f"{path}: {key.lstrip('.')}: YAML 1.1 reads {old!r} here and YAML 1.2 reads {new!r}; "
            "expected the same value. Quote a text; write a float with a dot (1.0e-5), a boolean "
            "as true or false."
        )
    elif isinstance(new, date):
        raise ConfigError(
            f"{path}: {key.lstrip('.')}: found the date {new}, expected a text; quote it."
        )


def _explain(
    error: dict[str, Any], model: type[BaseModel], name_place: Callable[[list[Any]], str]
) -> str:
    """Turn a pydantic error into a sentence: key, found, expected, nearest name."""
    location = [part for part in error["loc"] if not str(part).startswith("function-")]
    key = name_place(location)
    found = repr(error.get("input"))
    if len(found) > LONGEST_SHOWN:
        found = f"{found[:LONGEST_SHOWN]} ..."
    match error["type"]:
        case "extra_forbidden":
            owner = _find_model(model, location[:-1])
            names = list(owner.model_fields) if owner else []
            return f"{key}: unknown key. {suggest(str(location[-1]), names)}"
        case "missing":
            return f"{key}: this key is missing; expected a value."
        case "value_error":
            return f"{key}: {error['ctx']['error']}" if location else f"{error['ctx']['error']}"
        case "literal_error" | "enum":
            allowed = error["ctx"]["expected"].replace(" or ", ", ").replace("'", "").split(", ")
            return f"{key}: found {found}. {suggest(str(error['input']), allowed)}"
        case _:
            return f"{key}: found {found}; {error['msg'][:1].lower()}{error['msg'][1:]}."


def _find_model(model: type[BaseModel], location: list[Any]) -> type[BaseModel] | None:
    """Follow an error's location to the model that has no such key."""
    candidates: list[Any] = [model]
    for part in location:
        following: list[Any] = []
        for item in [form for candidate in candidates for form in _unfold(candidate)]:
            if _is_model(item) and part in item.model_fields:
                following.append(item.model_fields[part].annotation)
            elif _is_model(item) and _is_tag(item, part):
                following.append(item)
            elif get_origin(item) in (dict, list, tuple):
                following.extend(get_args(item)[-1:])
        candidates = following or candidates
    forms = [form for candidate in candidates for form in _unfold(candidate)]
    return next((form for form in forms if _is_model(form)), None)


def _is_model(form: Any) -> bool:  # Any: a type form
    return isinstance(form, type) and issubclass(form, BaseModel)


def _is_tag(model: type[BaseModel], part: object) -> bool:
    """Return whether a part of a location names this member of a tagged union."""
    field = model.model_fields.get("name")
    return field is not None and part in get_args(field.annotation)


def _unfold(annotation: Any) -> list[Any]:  # Any: a type form
    if get_origin(annotation) in (Union, types.UnionType):
        return [item for part in get_args(annotation) for item in _unfold(part)]
    if hasattr(annotation, "__metadata__"):
        return _unfold(get_args(annotation)[0])
    return [annotation]
