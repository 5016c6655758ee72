"""`reglue explain`: where a cell's numbers come from, and how to get them again."""

import argparse
import json
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from nlp_core.cli.program import Command
from nlp_core.config.params import read_params
from nlp_core.errors import ConfigError, suggest

COMMAND = Command(
    group="reproduce tables",
    place=3,
    summary="show where a cell's numbers come from",
    description="Show a cell's scores, data with digests and licences, model, recipe and where "
    "its values come from, seeds, fingerprint, the commands that train it and its commit.",
    examples=("reglue explain wikiqa cnn", "reglue explain conll2003 wcnn --json"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("table", metavar="TABLE", help="a table of trained cells")
    add("cell", metavar="CELL", help="one of its cells")
    add("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> None:
    from nlp_core.report.comparison import read_comparison
    from nlp_core.report.explanation import explain  # scipy: a second

    root = Path()
    params = read_params(root / "params.yaml")
    tables = sorted({item.table for item in params.experiments.values()})
    if options.table not in tables:
        hint = suggest(options.table, tables)
        raise ConfigError(f"table '{options.table}': unknown. {hint}")
    comparison = read_comparison(options.table, root, allow_missing=True)
    sections = explain(comparison, options.cell, params, root)
    if options.json:
        print(json.dumps(sections, indent=2, ensure_ascii=False))
        return
    console = Console(markup=False, highlight=False)
    for name, facts in sections.items():
        table = Table(box=None, show_header=False, pad_edge=False)
        for key, value in facts.items():
            table.add_row(Text(key, style="dim"), value)
        console.print(Text(f"\n{name}", style="bold"))
        console.print(table)
