"""`reglue verify`: train a cell again and compare every byte with the committed results.

Train cells of a table again, in a folder of their own, and compare weights, predictions and scores
with results/. Exit code 1 if anything differs.

Examples:
    reglue verify wikiqa cnn --seed 1
    reglue verify --draw 10
"""

import argparse
import tempfile
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from nlp_core.cli.output import open_console, print_json, show_log
from nlp_core.cli.stage_run import build_missing
from nlp_core.config.params import read_params
from nlp_core.errors import UsageError

if TYPE_CHECKING:
    from nlp_core.report.verification import SeedVerdict

EXIT_DIFFERENT = 1
GROUP = "reproduce tables"
PLACE = 3
HAS_JSON = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("table", metavar="TABLE", nargs="?", help="a table of grid/")
    add("cells", metavar="CELL", nargs="*", default=[], help="its cells; without them, verify all")
    seeds = "a seed; may be repeated (default: all)"
    add("--seed", type=int, action="append", default=[], help=seeds)
    add("--draw", type=int, metavar="COUNT", help="verify one seed of COUNT random cells instead")
    add("--draw-seed", type=int, metavar="N", help="seed of --draw (default: 1)")
    add(
        "--work",
        type=Path,
        metavar="FOLDER",
        help="keep the trained seeds there and resume a killed run (default: a temporary folder)",
    )
    # instead of the option of all commands, which would drop the verdicts
    add("--quiet", dest="only_verdicts", action="store_true", help="print only the verdicts")


def run(options: argparse.Namespace) -> None:
    _check(options)
    # two seconds of torch, after the command line has been checked
    from nlp_core.report.missing_stages import list_missing_stages
    from nlp_core.report.verification import draw_places, list_places, verify

    show_log("WARNING" if options.only_verdicts else "INFO")
    root = Path()
    params = read_params(root / "params.yaml")
    if options.draw is not None:
        draw_seed = 1 if options.draw_seed is None else options.draw_seed
        places = draw_places(params, root, count=options.draw, seed=draw_seed)
    else:
        places = list_places(
            params, root, table=options.table, cells=options.cells, seeds=options.seed
        )
    build_missing(partial(list_missing_stages, places, params, root), params, root)
    verdicts = []
    kept = nullcontext(options.work) if options.work else tempfile.TemporaryDirectory()
    with kept as work:
        for verdict in verify(places, params, root, Path(work)):
            verdicts.append(verdict)
            if not options.json:
                _show(verdict)
    num_passed = sum(verdict.has_passed for verdict in verdicts)
    if options.json:
        print_json([vars(verdict) for verdict in verdicts])
    else:
        print(f"{num_passed} of {len(places)} seeds verified.")
    if num_passed < len(places):
        raise SystemExit(EXIT_DIFFERENT)


def _check(options: argparse.Namespace) -> None:
    """Raise UsageError for arguments that do not fit together."""
    if (options.table is None) == (options.draw is None):
        both = options.table is not None
        found = f"both the table '{options.table}' and --draw" if both else "no table and no --draw"
        advice = "leave out one of them" if both else "name a table of grid/, or --draw COUNT"
        raise UsageError(f"reglue verify: found {found}, expected one of them; {advice}.")
    if options.draw is not None and options.draw < 1:
        raise UsageError(f"reglue verify: --draw: found {options.draw}, expected 1 or more.")
    if options.draw is not None and (options.cells or options.seed):
        raise UsageError("reglue verify: --draw draws cells and seeds; leave out CELL and --seed.")
    if options.draw is None and options.draw_seed is not None:
        raise UsageError("reglue verify: --draw-seed is the seed of --draw; leave it out.")
    if options.work is not None and options.work.exists() and not options.work.is_dir():
        raise UsageError(f"reglue verify: --work {options.work}: found a file, expected a folder.")


def _show(verdict: "SeedVerdict") -> None:
    console = open_console()
    console.print(f"{verdict.place}: {verdict.outcome}")
    for detail in verdict.details:
        console.print(f"  {detail}")
    if verdict.moved:
        columns = ("metric", "committed", "here", "difference", "sd of our seeds")
        table = Table(*columns, box=None)
        for item in verdict.moved:
            values = (item.committed, item.found, item.found - item.committed, item.sd)
            table.add_row(item.metric, *(f"{value:.4f}" for value in values))
        console.print(table)
