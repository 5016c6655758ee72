"""The options of a model file: the keyword-only arguments of blocks and heads."""

from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict, create_model

from nlp_core.blocks.option import list_options
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
    fields: dict[str, Any] = {
        name: (item.annotation, ... if item.default is item.empty else item.default)
        for name, item in list_options(owner).items()
    }
    config = ConfigDict(extra="forbid", strict=True, frozen=True)
    return create_model(f"{owner.__name__}Options", __config__=config, **fields)
