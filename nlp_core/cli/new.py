"""`reglue new`: look at a data file and write a model file for it.

Look at a data file and write a model file that trains on it without an edit. The guesses about
columns are printed with their lines.

Examples:
    reglue new classification --train reviews.tsv -o reviews.json
    reglue new tagging --train people.conll --encoder encoders/minilm -o people.json
"""

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table
from rich.text import Text

from nlp_core.cli.output import add_set, join_command, open_console, print_json
from nlp_core.cli.template import MULTIPLE_CHOICE, TEMPLATES, build_template
from nlp_core.cli.training_files import change_guess, change_model
from nlp_core.config.model import find_line, format_model, parse_model
from nlp_core.data.archive import open_data
from nlp_core.data.guess import count_rows, guess_data
from nlp_core.data.user_task import check_form
from nlp_core.encoders.folder import find_encoder, read_size
from nlp_core.errors import UsageError
from nlp_core.files import check_writable, write_text
from nlp_core.training.user_model import check_model

GROUP = "train on your own file"
PLACE = 1
HAS_JSON = True


class Guessed(NamedTuple):
    """A key of the `data` section, on its line of the model file."""

    line: int
    key: str
    value: Any  # Any: JSON
    reason: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("template", choices=list(TEMPLATES), help="what the model learns to predict")
    add("--train", type=open_data, required=True, help="training data")
    add("--dev", type=open_data, help="development data in the same format; it chooses the epoch")
    encoders = "start from a pretrained encoder: a folder, or a name on the Hugging Face hub"
    add("--encoder", help=encoders)
    add("-o", "--output", type=Path, required=True, help="model file to write")
    add("--force", action="store_true", help="overwrite the model file")
    add_set(parser)


def run(options: argparse.Namespace) -> None:
    output: Path = options.output
    check_writable(output, "-o")
    if output.exists() and not options.force:
        raise UsageError(f"{output}: the file exists; name another one, or use --force.")
    has_choices = options.template == MULTIPLE_CHOICE
    guess = guess_data(
        options.train,
        TEMPLATES[options.template],
        has_choices=has_choices,
        change=partial(change_guess, assignments=options.set, where=str(output)),
    )
    rows = count_rows(options.train, guess.data)
    init = find_encoder(options.encoder) if options.encoder else None
    encoder = read_size(init) if init else None
    model = build_template(options.template, guess.section, rows, encoder)
    change_model(model, options.set)
    check_model(parse_model(model, str(output)), str(output), init)
    # the guess has read the training file, but not as --set says
    for path in (options.train if options.set else None, options.dev):
        if path is not None:
            check_form(path, guess.data)
    text = format_model(model)
    write_text(output, text)
    guesses = [
        Guessed(find_line(text, "data", key), key, value, guess.explain(key))
        for key, value in guess.section.items()
    ]
    encoder_path = Path(options.encoder) if options.encoder else None
    inputs = {"--train": options.train, "--dev": options.dev, "--init": encoder_path}
    given: list[object] = [part for item in inputs.items() if item[1] for part in item]
    train = join_command(["train", output, *given])
    if options.json:
        print_json({"model": str(output), "data": guesses, "next": train})
        return
    table = Table("line", "data.", "guessed", "because", box=None)
    for item in guesses:
        shown = Text(json.dumps(item.value, ensure_ascii=False))
        table.add_row(str(item.line), item.key, shown, Text(item.reason))
    console = open_console()
    console.print(f"{output}: written. Edit the lines below if a guess is wrong:")
    console.print(table)
    print(f"\nNext: {train}")
