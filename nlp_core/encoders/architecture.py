"""The configuration of an encoder that begins from nothing."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nlp_core.config.base import read_mapping
from nlp_core.errors import ConfigError, suggest

SORTS = ("albert", "bert", "distilbert", "electra", "roformer")
GIVEN = ("vocab_size", "pad_token_id")
"""What comes from the tokenizer, not from the file."""


def read_architecture(path: Path, vocab_size: int, padding: int) -> dict[str, Any]:
    """Read a file of values of a configuration of transformers and complete it.

    Args:
        path: a JSON file; `model_type` says which sort of encoder, the rest are its own keys.
        vocab_size: pieces of the tokenizer.
        padding: id of padding.

    Returns:
        The whole configuration, as transformers writes it.

    Raises:
        ConfigError: the file is missing, or a key or a value is none of that sort of encoder.
    """
    values = read_mapping(path)
    sort = values.get("model_type")
    if sort not in SORTS:
        raise ConfigError(f"{path}: model_type: found {sort!r}. {suggest(str(sort), SORTS)}")
    # A large library that only models with a pretrained encoder need.
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoConfig

    plain = AutoConfig.for_model(sort)
    allowed = {*plain.to_dict(), *plain.attribute_map} - {*GIVEN, "_name_or_path"}
    for key in values:
        if key in GIVEN:
            raise ConfigError(
                f"{path}: {key}: found a value; the tokenizer gives it, so remove it."
            )
        if key not in allowed:
            raise ConfigError(f"{path}: {key}: unknown key of {sort}. {suggest(key, allowed)}")
    own = {key: value for key, value in values.items() if key != "model_type"}
    try:
        config = AutoConfig.for_model(sort, **own, vocab_size=vocab_size, pad_token_id=padding)
        complete: Mapping[str, Any] = config.to_dict()
    except (ValueError, TypeError, StrictDataclassError) as err:
        reason = " ".join(str(err).split())
        raise ConfigError(
            f"{path}: {reason}. Expected values that {sort} can be built of."
        ) from err
    return dict(complete)


def find_width(config: Mapping[str, Any]) -> int:
    """Return the width of an encoder's hidden states, whatever its configuration calls it."""
    # see `read_architecture`
    from transformers import AutoConfig

    values = {key: value for key, value in config.items() if key != "model_type"}
    return int(AutoConfig.for_model(config["model_type"], **values).hidden_size)
