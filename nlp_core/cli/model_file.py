"""What `train`, `test` and `predict` share: overrides, log lines, metrics."""

import argparse
import logging
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table


def add_overrides(parser: argparse.ArgumentParser) -> None:
    """Add --set and --plugin."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PATH.KEY=VALUE",
        help="change a value of the model file, such as layers.lstm.hidden_dim=64",
    )
    parser.add_argument(
        "--plugin",
        action="append",
        default=[],
        type=Path,
        metavar="FILE.py",
        help="a Python file that registers blocks, heads or tokenizers of your own",
    )


def show_log(level: str = "INFO") -> None:
    """Send log lines, as they are, to standard error."""
    logging.basicConfig(level=level, format="%(message)s", stream=sys.stderr, force=True)


def show_metrics(by_split: dict[str, dict[str, float]]) -> None:
    """Print metrics as a table of splits."""
    table = Table("split", *next(iter(by_split.values())), box=None)
    for split, metrics in by_split.items():
        table.add_row(split, *(f"{value:.2f}" for value in metrics.values()))
    Console().print(table)
