"""Options of blocks and heads: their types, and the keyword-only arguments that declare them."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, create_model
from torch import nn

from nlp_core.config.base import parse_config

PositiveInt = Annotated[int, Field(ge=1)]
PositiveFloat = Annotated[float, Field(gt=0.0)]
Probability = Annotated[float, Field(ge=0.0, lt=1.0)]
Pair = Annotated[Sequence[PositiveInt], Field(min_length=2, max_length=2)]
"""A number along each axis of a grid."""
Activation = Literal["none", "relu", "prelu", "tanh", "sigmoid", "gelu"]

_ACTIVATIONS: Mapping[str, type[nn.Module]] = {
    "none": nn.Identity,
    "relu": nn.ReLU,
    "prelu": nn.PReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "gelu": nn.GELU,
}

T = TypeVar("T")


def build_activation(name: Activation) -> nn.Module:
    return _ACTIVATIONS[name]()


def list_options(owner: type) -> dict[str, inspect.Parameter]:
    """Return the options of a block or head: the keyword-only arguments of its `__init__`.

    An `__init__` that takes `**options` also has the options of the next class in the
    inheritance order, and those of the class that is named as its `expert`.
    """
    found: dict[str, inspect.Parameter] = {}
    for base in owner.__mro__:
        if "__init__" in vars(base):
            parameters = _list_parameters(base)
            found = _select_options(parameters) | found
            if all(item.kind is not item.VAR_KEYWORD for item in parameters):
                break
        if "expert" in vars(base):
            found = _select_options(_list_parameters(vars(base)["expert"])) | found
    return found


def _list_parameters(owner: type) -> list[inspect.Parameter]:
    return [*inspect.signature(vars(owner)["__init__"]).parameters.values()]


def _select_options(parameters: Sequence[inspect.Parameter]) -> dict[str, inspect.Parameter]:
    return {item.name: item for item in parameters if item.kind is item.KEYWORD_ONLY}


def read_option(
    owner: type,
    options: Mapping[str, object],
    name: str,
    convert: Callable[[Any], T],  # Any: an option may have any type of JSON
) -> T:
    """Return a checked option that was set, or its default, as `int`, `tuple` ..."""
    if name in options:
        return convert(options[name])
    default = list_options(owner)[name].default
    assert default is not inspect.Parameter.empty, f"{owner.__name__}: option '{name}' is missing"
    return convert(default)


def check_options(owner: type, options: dict[str, Any], *, where: str) -> dict[str, Any]:
    """Return the options that were set, as the constructor of a block or head takes them.

    Raises:
        ConfigError: an unknown key, a wrong type, a value out of range, a missing option.
    """
    checked = parse_config(options, options_model(owner), where=where)
    return {name: getattr(checked, name) for name in options}


@cache
def options_model(owner: type) -> type[BaseModel]:
    fields: dict[str, Any] = {
        name: (item.annotation, ... if item.default is item.empty else item.default)
        for name, item in list_options(owner).items()
    }
    config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)
    return create_model(f"{owner.__name__}Options", __config__=config, **fields)
