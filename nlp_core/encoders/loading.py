"""Load a module of the library transformers: weights of a folder, or random ones."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from nlp_core import arithmetic
from nlp_core.data.pieces import WEIGHTS
from nlp_core.errors import ConfigError, DataError

NAMED = 3
"""Missing weights that an error names."""


def load_module(auto: Any, config: Any, weights: Path | None) -> Any:  # Any: classes of the library
    """Return the module of a configuration in float32; without weights, a random one.

    Raises:
        ConfigError: the library cannot build a model with these values.
        DataError: the weights are damaged, or those of another model.
    """
    arithmetic.install()  # here too, since an encoder is also used without a graph
    try:
        if weights is None:
            return auto.from_config(config)
        # it would warn of the layers that the model file leaves out
        with silence():
            module, report = auto.from_pretrained(
                weights,
                config=config,
                dtype=torch.float32,
                output_loading_info=True,
                ignore_mismatched_sizes=True,
            )
    except (ValueError, TypeError, KeyError, AssertionError) as err:
        raise describe_misfit(config.model_type, err) from err
    except SafetensorError as err:
        raise DataError(
            f"{weights}/{WEIGHTS}: found a broken file ({err}); copy it again."
        ) from err
    # the library draws what the file lacks; a pooling layer is not used
    lacking = {*report["missing_keys"], *(name for name, *_ in report["mismatched_keys"])}
    missing = sorted(name for name in lacking if "pooler" not in name)
    if missing:
        raise DataError(
            f"{weights / WEIGHTS}: found no weights, or weights of another shape, for "
            f"{', '.join(missing[:NAMED])}{' and more' if len(missing) > NAMED else ''}; "
            "expected those of the model that the config.json next to it describes."
        )
    return module


def describe_misfit(model_type: object, err: Exception) -> ConfigError:
    reason = " ".join(str(err).split())[:200]
    return ConfigError(
        f"init: found a config.json of type {model_type} from which transformers cannot build a "
        f"model ({reason}); correct the value, or name the folder of another encoder."
    )


@contextmanager
def silence() -> Iterator[None]:
    """Keep the library from writing warnings and a progress bar."""
    from transformers.utils import logging

    level = logging.get_verbosity()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(level)
        logging.enable_progress_bar()  # type: ignore[no-untyped-call]
