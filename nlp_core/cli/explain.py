"""`reglue explain`: show where a cell's numbers come from.

Show a cell's scores, data with digests and licences, model, recipe and where its values come from,
seeds, fingerprint, the commands that train it and its commit.

Examples:
    reglue explain wikiqa cnn
    reglue explain conll2003 wcnn --json
"""

import argparse
from pathlib import Path

from rich.table import Table
from rich.text import Text

from nlp_core.cli.output import open_console, print_json
from nlp_core.config.params import read_params

GROUP = "reproduce tables"
PLACE = 4
HAS_JSON = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("table", metavar="TABLE", help="a table of the grid")
    add("cell", metavar="CELL", help="one of its cells")


def run(options: argparse.Namespace) -> None:
    from nlp_core.report.comparison import read_comparison
    from nlp_core.report.explanation import explain  # scipy: a second

    root = Path()
    params = read_params(root / "params.yaml")
    params.check_table(options.table)
    comparison = read_comparison(options.table, root, allow_missing=True)
    sections = explain(comparison, options.cell, params, root)
    if options.json:
        print_json(sections)
        return
    console = open_console()
    for name, facts in sections.items():
        table = Table(box=None, show_header=False, pad_edge=False)
        for key, value in facts.items():
            table.add_row(Text(key, style="dim"), value)
        console.print(Text(f"\n{name}", style="bold"))
        console.print(table)
