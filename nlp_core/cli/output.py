"""What commands share: options, log lines, and how results are printed."""

import argparse
import json
import logging
import shlex
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from nlp_core.data.archive import ARCHIVES, is_archive
from nlp_core.errors import UsageError
from nlp_core.files import check_writable
from nlp_core.kinds import KINDS

if TYPE_CHECKING:
    from nlp_core.metrics import Predictions

log = logging.getLogger(__name__)

PACKED = (".gz", ".zip")


def add_set(parser: argparse.ArgumentParser, example: str = "layers.lstm.hidden_dim=64") -> None:
    """Add the option --set; `example` is a change that the command allows."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PATH.KEY=VALUE",
        help=f"change a value of the model file, such as {example}; may be repeated",
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


def check_output(target: Path, source: Path, option: str = "-o") -> None:
    """Raise UsageError if a file cannot be written, or would overwrite what is read."""
    check_writable(target, option)
    if target.resolve() == source.resolve():
        raise UsageError(f"{target}: {option} names the file that is read; name another one.")
    if is_archive(target):  # what is read may have been unpacked from it
        raise UsageError(f"{target}: {option} names a ZIP or gzip file; name another file.")
    if target.suffix.lower() in PACKED:
        raise UsageError(
            f"{target}: {option}: found a name that ends in {target.suffix}, expected that of a "
            f"plain file, since the output is not compressed; name it {target.stem} and compress "
            "it afterwards."
        )


def join_command(words: Sequence[object]) -> str:
    """Return a command as a shell reads it; a path with a leading dash is not taken for an option.

    Args:
        words: after `reglue`; paths are of the type Path.
    """
    named = [ARCHIVES.get(word, word) if isinstance(word, Path) else word for word in words]
    dashed = [
        f"./{word}" if isinstance(word, Path) and str(word)[0] == "-" else word for word in named
    ]
    return shlex.join(["reglue", *map(str, dashed)])


def show_log(level: str = "INFO") -> None:
    """Send log lines, as they are, to standard error."""
    logging.basicConfig(level=level, format="%(message)s", stream=sys.stderr, force=True)


def open_console(width: int | None = None) -> Console:
    """Return a console that prints texts unchanged; `width` is used if it is not a terminal."""
    width = None if sys.stdout.isatty() else width
    return Console(markup=False, highlight=False, width=width)


def print_json(result: object) -> None:
    """Print a result as JSON, with named tuples and records as objects."""
    print(json.dumps(_convert(result), indent=2, ensure_ascii=False))


def _convert(value: Any) -> Any:  # Any: a result holds anything of JSON, named tuples and records
    if hasattr(value, "_asdict"):
        value = value._asdict()
    elif hasattr(value, "model_dump"):
        value = value.model_dump()
    if isinstance(value, dict):
        return {key: _convert(item) for key, item in value.items()}
    return [_convert(item) for item in value] if isinstance(value, list | tuple) else value


def warn_of_constant(where: str, kind: str, measured: "Predictions") -> None:
    """Log a warning if all rows that were measured have the same right answer."""
    if measured.constant is None or len(measured.target) < 2 or KINDS.get(kind).is_searched:
        return
    log.warning(
        "%s: found '%s' as the only right answer of %d rows, expected different ones, without "
        "which scores say little; is it the column of the label? See --set data.label=...",
        *(where, measured.constant, len(measured.target)),
    )


def show_metrics(by_split: dict[str, dict[str, float]]) -> None:
    """Print metrics as a table, a row each."""
    table = Table("metric", *by_split, box=None)
    for name in dict.fromkeys(chain.from_iterable(by_split.values())):
        cells = (f"{found[name]:.2f}" if name in found else "" for found in by_split.values())
        table.add_row(name, *cells)
    open_console().print(table)
