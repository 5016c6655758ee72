"""`reglue submit`: the files that GLUE's site takes, from trained cells."""

import argparse
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from nlp_core.cli import Subparsers
from nlp_core.cli.output import show_log
from nlp_core.config.params import read_params
from nlp_core.errors import DataError
from nlp_core.report.submission import write_submission


def add_parser(subparsers: Subparsers) -> None:
    """Add `submit`."""
    parser = subparsers.add_parser(
        "submit",
        help="write the files that GLUE's site takes, from trained cells",
        description="Predict GLUE's test sets with trained cells and write the zip for its site.",
    )
    parser.add_argument(
        "cells", metavar="CELL", nargs="+", help="an experiment of grid/, one for each task"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, help="the zip to write")
    parser.add_argument(
        "--task",
        action="append",
        default=[],
        help="what a cell of several tasks predicts, once for each; all of its tasks without",
    )
    parser.add_argument("--seed", type=int, help="the seed that predicts; the first one of a cell")
    parser.add_argument(
        "--fill",
        choices=["majority"],
        help="give tasks without a cell the most frequent label of their training split",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Write the zip and say what each of its files comes from.

    Raises:
        ConfigError: a cell or a seed is wrong, or a task has no cell.
        DataError: something is not trained or not processed, or the zip cannot be written.
    """
    show_log("WARNING")
    if options.output.is_dir():
        raise DataError(f"{options.output}: found a folder, expected the name of a zip to write.")
    written = write_submission(
        options.output,
        options.cells,
        read_params(Path("params.yaml")),
        tasks=options.task,
        seed=options.seed,
        fill=options.fill is not None,
    )
    table = Table("file", "predicted by", "rows", box=None)
    for item in written:
        table.add_row(item.file, Text(item.origin), f"{item.rows:,}")
    console = Console(highlight=False)
    console.print(table)
    console.print(Text(f"{options.output}: {len(written)} files"))
