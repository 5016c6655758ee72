"""`reglue compare`: compare trained models on the same rows, and say which cannot be distinguished.

Compare what `reglue train` measured last, the test file or the rows held out, or predict a file.
Each difference has a 95 % interval and a paired test, corrected by Holm.

Examples:
    reglue compare artifacts/small artifacts/large
    reglue compare artifacts/small artifacts/large --data later.tsv
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from nlp_core.cli.output import (
    add_plugin,
    add_set,
    open_console,
    print_json,
    show_log,
    warn_of_constant,
)
from nlp_core.cli.trained_argument import open_predictor
from nlp_core.data.archive import open_data
from nlp_core.errors import UsageError

if TYPE_CHECKING:
    from nlp_core.report.run_comparison import MeasuredRun, MetricComparison

GROUP = "train on your own file"
PLACE = 5
HAS_JSON = True
WIDTH = 160
"""Columns of a table where the output is not a terminal."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("folders", type=Path, nargs="+", metavar="RUN", help="folders that `reglue train` wrote")
    add("--data", type=open_data, help="labelled data file (default: what training measured last)")
    add_plugin(parser)
    add_set(parser, "data.texts.0=COLUMN")


def run(options: argparse.Namespace) -> None:
    from nlp_core.report.run_comparison import compare_runs, read_measured_run  # scipy: a second

    show_log("WARNING")
    if options.set and options.data is None:
        raise UsageError("--set: found no --data, which it says how to read; add --data.")
    if options.data is None:
        runs = [read_measured_run(folder, options.plugin) for folder in options.folders]
    else:
        runs = [_measure(folder, options) for folder in options.folders]
    found = compare_runs(runs)
    where = options.data or f"{runs[0].name}: the rows measured last"
    warn_of_constant(str(where), runs[0].kind, runs[0].predictions)
    if options.json:
        print_json(found)
        return
    for item in found:
        _show(item)
    print("Intervals and tests cover the variation between rows, not between seeds.")


def _measure(folder: Path, options: argparse.Namespace) -> "MeasuredRun":
    from nlp_core.report.run_comparison import MeasuredRun

    arguments = {**vars(options), "folder": folder, "seed": None, "task": None}
    predictor = open_predictor(argparse.Namespace(**arguments))
    data = predictor.data
    found = predictor.compare(options.data).predictions
    return MeasuredRun(str(folder), data.kind.name, data.metrics_or_usual, "", found)


def _show(item: "MetricComparison") -> None:
    console = open_console(WIDTH)
    scores = Table(
        f"{item.metric}, {item.rows} rows", "score", "95 % interval", "letters", box=None
    )
    for score in item.scores:
        bounds = "" if score.interval is None else f"{score.interval:.2f}"
        scores.add_row(score.run, f"{score.score:.2f}", bounds, score.letters)
    console.print(scores)
    if not item.differences:
        console.print(f"No interval: {item.metric} cannot be resampled.\n")
        return
    table = Table("difference", "", "95 % interval", "p", "", box=None)
    for one in item.differences:
        said = "real" if one.is_real else "cannot be distinguished"
        values = f"{one.difference:+.2f}", f"{one.interval:+.2f}", f"{one.p_value:.3f}"
        table.add_row(f"{one.first} - {one.second}", *values, said)
    console.print(table)
    console.print()
