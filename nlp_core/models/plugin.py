"""Blocks, heads and tokenizers of a user: a Python file that registers them."""

import importlib.util
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nlp_core.blocks.base import BLOCKS
from nlp_core.data.tokenization import LOCATORS, TOKENIZERS
from nlp_core.errors import ConfigError
from nlp_core.files import digest_file
from nlp_core.heads.base import HEADS
from nlp_core.registry import Registry

REGISTRIES: tuple[Registry[Any], ...] = (
    BLOCKS,
    HEADS,
    TOKENIZERS,
    LOCATORS,
)  # Any: of unlike things


class Plugin(NamedTuple):
    path: str
    sha256: str


def load_plugins(paths: Sequence[Path]) -> list[Plugin]:
    """Run files that register blocks, heads or tokenizers, each only once.

    Raises:
        ConfigError: a file is missing, fails, registers nothing, or registers a name that is taken.
    """
    return [_load(path) for path in paths]


def check_plugins(needed: Sequence[Plugin], given: Sequence[Plugin], *, where: str) -> None:
    """Raise ConfigError if a plug-in of a trained model was not given, or has changed."""
    digests = {plugin.sha256 for plugin in given}
    for plugin in needed:
        if plugin.sha256 not in digests:
            found = ", ".join(f"{item.path} ({item.sha256[:12]})" for item in given) or "none"
            raise ConfigError(
                f"{where}: was trained with the plug-in {plugin.path} (sha256 {plugin.sha256[:12]}"
                f"...); found {found}. Pass that file with --plugin; no plug-in is run by default."
            )


def _load(path: Path) -> Plugin:
    if not path.is_file():
        raise ConfigError(f"{path}: no such plug-in; expected a Python file.")
    plugin = Plugin(str(path), digest_file(path))
    name = f"reglue_plugin_{plugin.sha256}"
    if name in sys.modules:
        return plugin
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path}: not a Python file; expected a name that ends in .py.")
    before = [registry.names() for registry in REGISTRIES]
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as err:
        del sys.modules[name]
        for registry, known in zip(REGISTRIES, before, strict=True):
            registry.forget({*registry.names()} - {*known})
        if not isinstance(err, Exception):
            raise
        raise ConfigError(f"{path}: {_describe(err, path)} Correct the plug-in.") from err
    if [registry.names() for registry in REGISTRIES] == before:
        del sys.modules[name]
        raise ConfigError(
            f"{path}: registers no block, head or tokenizer; expected a class decorated with "
            '@BLOCKS.register("name") or @HEADS.register("name").'
        )
    return plugin


def _describe(error: Exception, path: Path) -> str:
    """Return type and text of an error, and the line of the plug-in that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    line = error.lineno if isinstance(error, SyntaxError) else (lines or [None])[-1]
    place = f"line {line}: " if line else ""
    return f"{place}the plug-in fails with {type(error).__name__}: {error}."
