"""The options of a model file: the keyword-only arguments of blocks and heads."""

import inspect
from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict, create_model

from nlp_core.config.base import parse_config


def check_options(owner: type, options: dict[str, Any], *, where: str) -> dict[str, Any]:
    """Return the options that were set for a block or head, as its constructor takes them.

    Raises:
        ConfigError: an unknown key, a wrong type, a value out of range, a missing option.
    """
    checked = parse_config(options, options_model(owner), where=where)
    return {name: getattr(checked, name) for name in options}


@cache
def options_model(owner: type) -> type[BaseModel]:
    """Return the closed model of a class's keyword-only constructor arguments."""
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(owner).parameters.values():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            required = parameter.default is inspect.Parameter.empty
            fields[parameter.name] = (
                parameter.annotation,
                ... if required else parameter.default,
            )
    config = ConfigDict(extra="forbid", strict=True, frozen=True)
    return create_model(f"{owner.__name__}Options", __config__=config, **fields)
