"""`reglue test` and `reglue predict`: use a trained model."""

import argparse
import json
import sys
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from nlp_core.cli import Subparsers, add_command
from nlp_core.cli.output import show_log, show_metrics
from nlp_core.cli.trained_argument import add_trained, open_predictor
from nlp_core.errors import ConfigError
from nlp_core.kinds import KINDS
from nlp_core.prediction.file_prediction import describe_prediction, predict_file
from nlp_core.prediction.predictor import Predictor

END = "exit"


def add_parser(subparsers: Subparsers) -> None:
    """Add `test` and `predict`."""
    test = add_command(subparsers, "test")
    test.add_argument("--data", type=Path, required=True, help="labelled data file")
    test.add_argument("--json", action="store_true", help="print JSON")
    test.add_argument("--confusion", action="store_true", help="also print the confusion matrix")
    test.set_defaults(run=run_test)
    predict = add_command(subparsers, "predict")
    predict.add_argument(
        "--data", type=Path, help="data file (default: type texts in the terminal)"
    )
    predict.add_argument("-o", "--output", type=Path, help="file to write, in the format of --data")
    predict.add_argument(
        "--confidence-of",
        action="append",
        default=[],
        metavar="LABEL",
        help="also write the probability of this label; may be repeated",
    )
    predict.set_defaults(run=run_predict)
    for parser in (test, predict):
        add_trained(parser)


def run_test(options: argparse.Namespace) -> None:
    """Print the metrics of a file.

    Raises:
        ConfigError: a plug-in is missing, an override is wrong, or there is no such matrix.
        DataError: the folder or the file is not what it should be.
    """
    show_log("WARNING")
    predictor = open_predictor(options)
    if options.confusion and not predictor.data.kind.has_confusion:
        fitting = [name for name in KINDS.names() if KINDS.get(name).has_confusion]
        raise ConfigError(
            f"--confusion: found a model of the kind {predictor.data.kind}, expected one that "
            f"gives each row one label: {' or '.join(fitting)}."
        )
    metrics, confusion = predictor.compare(options.data)
    shown = confusion if options.confusion else None
    if options.json:
        counts = {"labels": shown.labels, "counts": shown.counts.tolist()} if shown else None
        found = metrics | ({"confusion": counts} if counts else {})
        sys.stdout.write(json.dumps(found, indent=2, sort_keys=True) + "\n")
        return
    show_metrics({options.data.name: metrics})
    if shown is not None:
        from nlp_core.report.confusion import render_confusion  # scipy, only for this

        sys.stdout.write(f"\n{render_confusion(shown)}\n")


def run_predict(options: argparse.Namespace) -> None:
    """Predict a file, or ask for inputs.

    Raises:
        ConfigError: an argument, a plug-in or an override is wrong.
        DataError: the folder or the file is not what it should be.
    """
    show_log("WARNING")
    if (options.data is None) != (options.output is None):
        raise ConfigError("predict: found one of --data and -o, expected both or neither.")
    if options.data is None and not sys.stdin.isatty():
        raise ConfigError(
            "predict: standard input is no terminal, and no file was given; give --data FILE and "
            "-o FILE, or type inputs on a terminal."
        )
    predictor = open_predictor(options)
    if options.data is None:
        predictor.require_texts_alone()
        _ask(predictor, options.confidence_of)
        return
    if options.output.resolve() == options.data.resolve():
        raise ConfigError(f"{options.output}: -o names the file that is read; name another one.")
    rows = predict_file(predictor, options.data, options.output, options.confidence_of)
    Console(soft_wrap=True, highlight=False).print(escape(f"{options.output}: {rows} rows"))


def _ask(predictor: Predictor, confidence_of: list[str]) -> None:
    """Ask for each text of an input until `exit` or the end of the terminal."""
    places = {f"confidence_of_{label}": predictor.find_label(label) for label in confidence_of}
    names = ["text" if name.isdecimal() else name for name in predictor.data.input_columns]
    console = Console(highlight=False)
    console.print(escape(f"'{END}' or Ctrl-D ends."))
    while True:
        texts = []
        for name in names:
            try:
                texts.append(input(f"{name}: "))
            except EOFError:
                console.print()
                return
            if texts[-1].strip() == END:
                return
        try:
            (prediction,) = predictor.predict([texts[0] if len(texts) == 1 else texts])
        except ConfigError as err:  # such as a context without words: ask again
            console.print(escape(str(err)))
            continue
        columns = describe_prediction(prediction, places)
        data = predictor.data
        if data.kind.has_tags and not (data.kind.has_label or data.has_spans):
            rows = zip(predictor.tokenize(texts[0]), *columns.values(), strict=True)
            lines = ["  " + "\t".join(str(cell) for cell in row) for row in rows]
        else:
            lines = [
                f"  {name}: {' '.join(map(str, value)) if isinstance(value, list) else value}"
                for name, value in columns.items()
            ]
        console.print(escape("\n".join(lines)))
