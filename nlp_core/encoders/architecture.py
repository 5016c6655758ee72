"""The configuration of an encoder that is trained from scratch."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nlp_core.config.base import read_mapping
from nlp_core.errors import ConfigError, suggest

MODEL_TYPES = ("albert", "bert", "distilbert", "electra", "roformer")
TOKENIZER_KEYS = ("vocab_size", "pad_token_id")
"""Keys that the tokenizer decides."""


def read_architecture(path: Path, vocab_size: int, padding: int) -> dict[str, Any]:
    """Return the complete configuration of transformers for the values of a JSON file.

    Args:
        path: `model_type` in it names the type of encoder; the other keys are those of that type.
        vocab_size: pieces of the tokenizer.
        padding: id of padding.

    Raises:
        ConfigError: the file is missing, or that type of encoder does not have a key or value.
    """
    values = read_mapping(path)
    model_type = values.get("model_type")
    if model_type not in MODEL_TYPES:
        raise ConfigError(
            f"{path}: model_type: found {model_type!r}. {suggest(str(model_type), MODEL_TYPES)}"
        )
    # a large library that only models with a pretrained encoder need
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoConfig

    plain = AutoConfig.for_model(model_type)
    allowed = {*plain.to_dict(), *plain.attribute_map} - {*TOKENIZER_KEYS, "_name_or_path"}
    for key in values:
        if key in TOKENIZER_KEYS:
            raise ConfigError(f"{path}: {key}: found a value; remove it, the tokenizer sets it.")
        if key not in allowed:
            raise ConfigError(
                f"{path}: {key}: unknown key of {model_type}. {suggest(key, allowed)}"
            )
    own = {key: value for key, value in values.items() if key != "model_type"}
    try:
        config = AutoConfig.for_model(
            model_type, **own, vocab_size=vocab_size, pad_token_id=padding
        )
        complete: Mapping[str, Any] = config.to_dict()
    except (ValueError, TypeError, StrictDataclassError) as err:
        reason = " ".join(str(err).split())
        raise ConfigError(f"{path}: {reason}. Expected values of a valid {model_type}.") from err
    return dict(complete)


def find_width(config: Mapping[str, Any]) -> int:
    """Return the width of an encoder's hidden states, whatever its configuration calls it."""
    # see `read_architecture`
    from transformers import AutoConfig

    values = {key: value for key, value in config.items() if key != "model_type"}
    return int(AutoConfig.for_model(config["model_type"], **values).hidden_size)
