"""Check tensor shapes and types in blocks and heads while tests run; production pays nothing."""

import nlp_core  # isort: skip  # noqa: F401  # pins the instruction set before torch is imported

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from jaxtyping import install_import_hook

install_import_hook(["nlp_core.blocks", "nlp_core.heads"], "beartype.beartype")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder with a cache of its own; log handlers and registries are put back."""
    from nlp_core.models.plugin import REGISTRIES

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGLUE_CACHE", str(tmp_path / "cache"))
    for registry in REGISTRIES:
        monkeypatch.setattr(registry, "_items", dict(registry._items))
    handlers, level = logging.root.handlers[:], logging.root.level
    yield tmp_path
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)
