"""`reglue test`: measure a trained model on a labelled file.

Examples:
    reglue test artifacts/reviews --data later.tsv
    reglue test artifacts/reviews --data later.tsv --checks --max-changed 10
"""

import argparse
import math

from rich.table import Table

from nlp_core.cli.output import (
    add_set,
    open_console,
    print_json,
    show_log,
    show_metrics,
    warn_of_constant,
)
from nlp_core.cli.trained_argument import add_trained, open_predictor
from nlp_core.data.archive import open_data
from nlp_core.errors import UsageError
from nlp_core.kinds import KINDS
from nlp_core.prediction.behaviour import CheckResult, run_checks

GROUP = "train on your own file"
PLACE = 4
HAS_JSON = True
EXIT_CHANGED = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--data", type=open_data, required=True, help="labelled data file")
    add("--confusion", action="store_true", help="also print the confusion matrix")
    checks = "also change texts (typos, case, names, numbers), and count the answers that change"
    add("--checks", action="store_true", help=checks)
    most = "with --checks: exit with 1 if a check changes more answers, in percent"
    add("--max-changed", type=float, metavar="PERCENT", help=most)
    add_trained(parser)
    add_set(parser, "data.texts.0=COLUMN")


def run(options: argparse.Namespace) -> None:
    show_log("WARNING")
    if options.max_changed is not None and not 0 <= options.max_changed <= 100:
        raise UsageError(f"--max-changed: found {options.max_changed:g}, expected 0 to 100.")
    if options.max_changed is not None and not options.checks:
        raise UsageError("--max-changed: found without --checks, expected both; add --checks.")
    predictor = open_predictor(options)
    if options.confusion and not predictor.data.kind.has_confusion:
        fitting = [name for name in KINDS.names() if KINDS.get(name).has_confusion]
        raise UsageError(
            f"--confusion: found a model of the kind {predictor.data.kind}, expected one that "
            f"gives each row one label: {' or '.join(fitting)}."
        )
    scores = predictor.compare(options.data)
    warn_of_constant(str(options.data), predictor.data.kind.name, scores.predictions)
    checks = run_checks(predictor, options.data) if options.checks else []
    metrics, shown = scores.metrics, scores.confusion if options.confusion else None
    if options.json:
        counts = {"labels": shown.labels, "counts": shown.counts.tolist()} if shown else None
        more = {"confusion": counts, "checks": checks or None}
        print_json(metrics | {name: item for name, item in more.items() if item is not None})
    else:
        show_metrics({options.data.name: metrics})
        if shown is not None:
            from nlp_core.report.markdown import list_confusion, render_rows  # scipy, only here

            header, *rows = list_confusion(shown)
            print(f"\n{render_rows(header, rows)}")
        if checks:
            _show_checks(checks)
    most = math.inf if options.max_changed is None else options.max_changed
    if any(item.percent > most for item in checks):
        raise SystemExit(EXIT_CHANGED)


def _show_checks(checks: list[CheckResult]) -> None:
    table = Table("check", "texts changed", "answers changed", "%", box=None)
    for item in checks:
        table.add_row(item.check, str(item.texts), str(item.changed), f"{item.percent:.1f}")
    console = open_console()
    console.print()
    console.print(table)
    for item in checks:
        for one in item.worst:
            console.print(f"\n{item.check}, line {one.line}: {one.answer} -> {one.changed_answer}")
            console.print(f"  {one.text}\n  {one.changed_text}")
