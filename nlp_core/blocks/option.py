"""Types of the options that blocks and heads take, and how a class reads its own."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field
from torch import nn

PositiveInt = Annotated[int, Field(ge=1)]
"""A width or a count, at least 1."""

PositiveFloat = Annotated[float, Field(gt=0.0)]
"""A weight above 0."""

Pair = Annotated[Sequence[PositiveInt], Field(min_length=2, max_length=2)]
"""A count along the first sequence of a grid, and one along the second."""

Probability = Annotated[float, Field(ge=0.0, lt=1.0)]
"""A share that is dropped, at least 0 and below 1."""

Activation = Literal["none", "relu", "prelu", "tanh", "sigmoid", "gelu"]
"""The function after a linear map or a convolution; `none` leaves it as it is."""

Pool = Literal["max", "mean", "last", "first"]
"""How the vectors of a sequence become one."""

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
    """Return a new module of an activation function; `prelu` has one parameter of its own."""
    return _ACTIVATIONS[name]()


def read_option(
    owner: type[nn.Module],
    options: Mapping[str, object],
    name: str,
    convert: Callable[[Any], T],  # Any: an option may have any type of JSON
) -> T:
    """Return an option that was given, or its default in the signature of the owner's `__init__`.

    Args:
        owner: the block that has the option.
        options: the options that were given, already checked.
        name: the option's name.
        convert: `int`, `str`, `tuple`, ...: the type it is read as.
    """
    if name in options:
        return convert(options[name])
    default = inspect.signature(owner.__init__).parameters[name].default
    assert default is not inspect.Parameter.empty, f"{owner.__name__}: option '{name}' is missing"
    return convert(default)
