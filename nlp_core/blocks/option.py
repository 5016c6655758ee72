"""Types of the options of blocks and heads, and how they are read from the signatures."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field
from torch import nn

PositiveInt = Annotated[int, Field(ge=1)]
PositiveFloat = Annotated[float, Field(gt=0.0)]
Probability = Annotated[float, Field(ge=0.0, lt=1.0)]
Pair = Annotated[Sequence[PositiveInt], Field(min_length=2, max_length=2)]
"""A number along each axis of a grid."""
Activation = Literal["none", "relu", "prelu", "tanh", "sigmoid", "gelu"]
Pool = Literal["max", "mean", "last", "first"]

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

    An `__init__` that takes `**options` has those of the next class in the inheritance order, too.
    """
    found: dict[str, inspect.Parameter] = {}
    for base in owner.__mro__:
        if "__init__" in vars(base):
            parameters = inspect.signature(vars(base)["__init__"]).parameters.values()
            own = {item.name: item for item in parameters if item.kind is item.KEYWORD_ONLY}
            found = own | found
            if all(item.kind is not item.VAR_KEYWORD for item in parameters):
                break
    return found


def read_option(
    owner: type[nn.Module],
    options: Mapping[str, object],
    name: str,
    convert: Callable[[Any], T],  # Any: an option may have any type of JSON
) -> T:
    """Return an option that was set, or its default.

    Args:
        options: those that were set, already checked.
        convert: the type it is read as, such as `int` or `tuple`.
    """
    if name in options:
        return convert(options[name])
    default = list_options(owner)[name].default
    assert default is not inspect.Parameter.empty, f"{owner.__name__}: option '{name}' is missing"
    return convert(default)
