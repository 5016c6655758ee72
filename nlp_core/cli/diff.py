"""`reglue diff`: show the scores that moved between two commits.

Show every reported score in results/ that differs between two commits, with the 95 % confidence
interval of the difference over seeds.

Examples:
    reglue diff HEAD
    reglue diff main my-branch --markdown
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.table import Column, Table

from nlp_core.cli.output import open_console, print_json
from nlp_core.errors import UsageError

if TYPE_CHECKING:
    from nlp_core.report.difference import ScoreChange

HEADER = ["table", "cell", "metric", "before", "after", "difference", "95 % interval"]
EXIT_MOVED = 1
WIDTH = 160
"""Columns of the table where the output is not a terminal."""
GROUP = "reproduce tables"
PLACE = 7
HAS_JSON = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("before", metavar="REV1", help="a commit")
    add("after", metavar="REV2", nargs="?", help="a commit (default: the files now)")
    add("--markdown", action="store_true", help="print a Markdown table")
    add("--exit-code", action="store_true", help="leave with 1 if a score moved")


def run(options: argparse.Namespace) -> None:
    if options.json and options.markdown:
        raise UsageError("diff: found --json and --markdown, expected one of them.")
    from nlp_core.report.difference import list_moved, read_revision  # scipy: a second
    from nlp_core.report.markdown import render_rows

    root = Path()
    states = [read_revision(root, revision) for revision in (options.before, options.after)]
    moved = list(list_moved(*states))
    rows = [_describe(item) for item in moved]
    if options.json:
        print_json(moved)
    elif not rows:
        print("No score moved.")
    elif options.markdown:
        print(render_rows(HEADER, rows))
    else:
        table = Table(*(Column(name, no_wrap=True) for name in HEADER), box=box.SIMPLE_HEAD)
        for row in rows:
            table.add_row(*row)
        open_console(WIDTH).print(table)
    if rows and options.exit_code:
        raise SystemExit(EXIT_MOVED)


def _describe(moved: "ScoreChange") -> list[str]:
    before, after, interval = moved.before, moved.after, moved.interval
    scores = [f"{s.mean:.2f} ± {s.sd:.2f} ({s.n})" if s else "" for s in (before, after)]
    change = f"{after.mean - before.mean:+.2f}" if before and after else ""
    bounds = f"{interval:+.2f}" if interval else ""
    return [moved.table, moved.cell, moved.metric, *scores, change, bounds]
