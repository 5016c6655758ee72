"""`reglue tables`: show published numbers, ours and the verdicts.

Examples:
    reglue tables
    reglue tables wikiqa
"""

import argparse
import sys
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nlp_core.cli.output import open_console
from nlp_core.config.base import check_known
from nlp_core.config.published import read_published
from nlp_core.errors import ConfigError, UsageError
from nlp_core.files import replacing
from nlp_core.report.comparison import Comparison, is_measured, list_tables, read_comparison
from nlp_core.report.markdown import build_grid, render_notes, summarise_outcomes
from nlp_core.report.paper import FORMATS, PaperTable
from nlp_core.report.significance import find_differences

STYLES = {
    "above": "green",
    "reproduced": "green",
    "trend": "green",
    "below": "red",
    "no trend": "red",
    "no verdict": "dim",
    "open": "dim",
    "reference": "dim",
}
"""How a row looks, by the outcome of its number."""
GROUP = "reproduce tables"
PLACE = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("name", metavar="NAME", nargs="?", help="a table; without it, show all")
    add(
        "--format",
        choices=[*FORMATS],
        help="print the table for a paper: LaTeX with booktabs and a macro for each number, CSV, "
        "JSON or markdown; needs NAME",
    )
    add("--figure", type=Path, metavar="FILE.pdf", help="write the figure as PDF; needs NAME")


def run(options: argparse.Namespace) -> None:
    root = Path()
    names = list_tables(root)
    if not names:
        raise UsageError(
            f"{root.resolve()}: found no reports/published/, expected the root of a project with "
            "tables; go there first."
        )
    check_known("reports/published", "table", options.name, names, ConfigError)
    if (options.format or options.figure) and options.name is None:
        raise UsageError("reglue tables: --format and --figure need the NAME of a table.")
    if options.figure is not None:
        _write_figure(options.figure, options.name, root)
        # what a format prints may be read as a file
        print(f"{options.figure}: written", file=sys.stderr if options.format else sys.stdout)
    if options.format is not None:
        comparison = read_comparison(options.name, root)
        table = PaperTable(comparison, find_differences(comparison, root))
        sys.stdout.write(FORMATS[options.format](table))
    if options.format or options.figure:
        return
    console = open_console()
    chosen = [name for name in names if is_measured(name, root)]
    for name in chosen if options.name is None else [options.name]:
        _print_table(console, name, read_comparison(name, root, allow_missing=True))
    if options.name is None:
        for name in (name for name in names if name not in chosen):
            title = read_published(root / "reports" / "published" / f"{name}.yaml").title
            console.print(f"{title}  ({name}): not measured; `reglue tables {name}` shows it.")


def _write_figure(path: Path, name: str, root: Path) -> None:
    from nlp_core.report.figure import draw_figure  # a second of matplotlib

    if path.suffix != ".pdf":
        raise UsageError(f"--figure {path}: expected the name of a PDF file, such as {name}.pdf.")
    with replacing(path) as temporary:
        temporary.write_bytes(draw_figure(read_comparison(name, root), file_format="pdf"))


def _print_table(console: Console, name: str, comparison: Comparison) -> None:
    console.print(Text(comparison.published.title, style="bold").append(f"  ({name})", "dim"))
    for part in comparison.parts:
        grid = build_grid(part, comparison)
        table = Table(*grid.header, box=box.SIMPLE_HEAD, pad_edge=False)
        for entry, row in zip(part.entries, grid.rows, strict=True):
            table.add_row(*row, style=STYLES.get(entry.verdict.outcome, ""))
        console.print(Text(f"\n{part.config.title}", style="italic"))
        console.print(table)
        if notes := render_notes(part, comparison):
            console.print(notes)
    console.print(f"{summarise_outcomes(comparison.entries)}\n")
