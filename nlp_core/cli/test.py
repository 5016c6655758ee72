"""`reglue test`: measure a trained model on a labelled file.

Examples:
    reglue test artifacts/reviews --data later.tsv
    reglue test artifacts/reviews --data later.tsv --confusion
"""

import argparse

from nlp_core.cli.output import add_set, print_json, show_log, show_metrics
from nlp_core.cli.trained_argument import add_trained, open_predictor
from nlp_core.data.archive import open_data
from nlp_core.errors import UsageError
from nlp_core.kinds import KINDS

GROUP = "train on your own file"
PLACE = 3
HAS_JSON = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--data", type=open_data, required=True, help="labelled data file")
    add("--confusion", action="store_true", help="also print the confusion matrix")
    add_trained(parser)
    add_set(parser)


def run(options: argparse.Namespace) -> None:
    show_log("WARNING")
    predictor = open_predictor(options)
    if options.confusion and not predictor.data.kind.has_confusion:
        fitting = [name for name in KINDS.names() if KINDS.get(name).has_confusion]
        raise UsageError(
            f"--confusion: found a model of the kind {predictor.data.kind}, expected one that "
            f"gives each row one label: {' or '.join(fitting)}."
        )
    found = predictor.compare(options.data)
    metrics, shown = found.metrics, found.confusion if options.confusion else None
    if options.json:
        counts = {"labels": shown.labels, "counts": shown.counts.tolist()} if shown else None
        print_json(metrics | ({"confusion": counts} if counts else {}))
        return
    show_metrics({options.data.name: metrics})
    if shown is not None:
        from nlp_core.report.markdown import render_confusion  # scipy, only for this

        print(f"\n{render_confusion(shown)}")
