"""What commands share: files they write, overrides, log lines, metrics."""

import argparse
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.table import Table

from nlp_core.errors import DataError
from nlp_core.files import replacing


@contextmanager
def writing(path: Path) -> Iterator[TextIO]:
    """Open a file that takes the name `path` when all was written, and vanishes otherwise.

    Text is UTF-8 and line ends stay as they come.

    Raises:
        DataError: the path is a folder, or the file system refuses it.
    """
    if path.is_dir():
        raise DataError(f"{path}: found a folder, expected the name of a file to write.")
    try:
        with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as out:
            yield out
    except OSError as err:
        raise DataError(f"{path}: cannot be written: {err.strerror}; name another file.") from err


def add_set(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PATH.KEY=VALUE",
        help="change a value of the model file, such as layers.lstm.hidden_dim=64; may be repeated",
    )


def add_plugin(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--plugin",
        action="append",
        default=[],
        type=Path,
        metavar="FILE.py",
        help="a Python file that registers your blocks, heads or tokenizers; may be repeated",
    )


def show_log(level: str = "INFO") -> None:
    """Send log lines, as they are, to standard error."""
    logging.basicConfig(level=level, format="%(message)s", stream=sys.stderr, force=True)


def show_metrics(by_split: dict[str, dict[str, float]]) -> None:
    """Print metrics as a table, a row each."""
    table = Table("metric", *by_split, box=None)
    for name in next(iter(by_split.values())):
        table.add_row(name, *(f"{metrics[name]:.2f}" for metrics in by_split.values()))
    Console().print(table)
