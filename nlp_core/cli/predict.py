"""`reglue predict`: predict a file, the lines of standard input, or texts that you type.

Examples:
    reglue predict artifacts/reviews --data later.tsv -o predicted.tsv
    reglue predict artifacts/reviews
"""

import argparse
import io
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from nlp_core.cli.output import add_set, check_output, print_json, show_log
from nlp_core.cli.trained_argument import add_trained, open_predictor
from nlp_core.data.archive import open_data
from nlp_core.data.readers.lines import parse_number
from nlp_core.errors import ConfigError, UsageError
from nlp_core.prediction.file_prediction import describe_prediction, predict_file
from nlp_core.prediction.predictor import Predictor

GROUP = "train on your own file"
PLACE = 6
HAS_JSON = True
END = "exit"
BREAK = re.compile(r"[\n\r\t]")
"""What a cell of standard output is quoted for."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--data", type=open_data, help="data file (default: standard input, a text on each line)")
    add("-o", "--output", type=Path, help="file to write, in the format of --data")
    add(
        "--confidence-of",
        action="append",
        default=[],
        metavar="LABEL",
        help="also write the probability of this label; may be repeated",
    )
    least = "leave the prediction of a row empty if its confidence is lower; auto: the threshold "
    least += "that train chose"
    add("--abstain-below", type=read_least, metavar="P", help=least)
    add_trained(parser)
    add_set(parser, "data.texts.0=COLUMN")


def read_least(text: str) -> float | Literal["auto"]:
    if text == "auto":
        return "auto"
    value = parse_number(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"found {text}, expected a number from 0 to 1, or auto")
    return value


def run(options: argparse.Namespace) -> None:
    show_log("WARNING")
    if (options.data is None) != (options.output is None):
        raise UsageError("predict: found one of --data and -o, expected both or neither.")
    is_typed = options.data is None and sys.stdin.isatty()
    if is_typed and options.json:
        raise UsageError(
            "predict: found --json on a terminal, expected --data FILE and -o FILE, or texts from "
            "a pipe."
        )
    if options.data is not None:
        check_output(options.output, options.data)
    predictor = open_predictor(options, abstain_below=options.abstain_below)
    if options.data is None:
        predictor.require_texts_alone()
        if is_typed:
            _ask(predictor, options.confidence_of)
        else:
            _read_lines(predictor, options.confidence_of, as_json=options.json)
        return
    rows = predict_file(predictor, options.data, options.output, options.confidence_of)
    if options.json:
        print_json({"output": str(options.output), "rows": rows})
    else:
        print(f"{options.output}: {rows} rows")


def _name_texts(predictor: Predictor) -> list[str]:
    return ["text" if name.isdecimal() else name for name in predictor.data.input_columns]


def _read_lines(predictor: Predictor, confidence_of: list[str], *, as_json: bool) -> None:
    """Print the prediction of each line of standard input on a line: its columns, or JSON.

    Raises:
        ConfigError: the model cannot read a line; the lines before it are predicted.
    """
    places = predictor.find_places(confidence_of)
    names = _name_texts(predictor)
    for number, line in enumerate(_read_standard_input(), start=1):
        texts = line.rstrip("\n").split("\t") if len(names) > 1 else [line.rstrip("\n")]
        where = f"standard input, line {number}"
        if len(texts) != len(names):
            raise UsageError(
                f"{where}: expected {len(names)} texts separated by a tab ({', '.join(names)}), "
                f"found {len(texts)}."
            )
        try:
            (prediction,) = predictor.predict([_join(texts)])
        except ConfigError as err:
            raise type(err)(f"{where}: {err}") from err
        columns = describe_prediction(prediction, places)
        if as_json:
            print(json.dumps(columns, ensure_ascii=False), flush=True)
        else:
            print(*map(_format_cell, columns.values()), sep="\t", flush=True)


def _read_standard_input() -> Iterator[str]:
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8-sig", errors="strict")
    try:
        yield from sys.stdin
    except UnicodeDecodeError as err:
        raise UsageError(
            f"standard input: found bytes that are not UTF-8 ({err.reason}); convert the text, for "
            "example with `iconv -f latin1 -t utf-8`."
        ) from err


def _join(texts: Sequence[str]) -> str | Sequence[str]:
    """Return the input of a model that reads one text or several."""
    return texts[0] if len(texts) == 1 else texts


def _format_cell(value: object) -> str:
    if isinstance(value, list) and not any(isinstance(item, dict) for item in value):
        return " ".join(map(str, value))
    if isinstance(value, str) and not BREAK.search(value):
        return value
    return json.dumps(value, ensure_ascii=False)


def _ask(predictor: Predictor, confidence_of: list[str]) -> None:
    """Ask for each text of an input until `exit` or the end of the terminal."""
    places = predictor.find_places(confidence_of)
    names = _name_texts(predictor)
    print(f"'{END}' or Ctrl-D ends.")
    while True:
        texts = []
        for name in names:
            try:
                texts.append(input(f"{name}: "))
            except EOFError:
                print()
                return
            if texts[-1].strip() == END:
                return
        try:
            (prediction,) = predictor.predict([_join(texts)])
        except ConfigError as err:  # such as a context without words: ask again
            print(err)
            continue
        columns = describe_prediction(prediction, places)
        data = predictor.data
        if data.kind.has_tags and not (data.kind.has_label or data.has_spans):
            rows = zip(predictor.tokenize(texts[0]), *columns.values(), strict=True)
            lines = ["  " + "\t".join(str(cell) for cell in row) for row in rows]
        else:
            lines = [f"  {name}: {_format_cell(value)}" for name, value in columns.items()]
        print("\n".join(lines))
