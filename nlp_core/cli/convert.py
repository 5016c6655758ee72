"""`reglue convert`: write a tagged file in another tagging scheme.

Write a file with its tags in another scheme. Nothing else in it changes.

Examples:
    reglue convert in.conll out.conll --from conll2003 --scheme-from IOB1 --scheme-to BIOES
    reglue convert in.tsv out.tsv --from tsv --scheme-from BIO --scheme-to BILOU
"""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO, get_args

from nlp_core.data.conversion import Conversion, Form
from nlp_core.data.tagging_scheme import PREFIXES
from nlp_core.errors import DataError
from nlp_core.files import replacing

GROUP = "train on your own file"
PLACE = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("source", metavar="IN", type=Path, help="the file to read")
    add("target", metavar="OUT", type=Path, help="the file to write")
    add(
        "--from",
        dest="form",
        required=True,
        choices=get_args(Form),
        help="format of IN. conll2003: four columns separated by one space; columns: two or more "
        "columns separated by tabs or spaces; tsv: one sentence per line, words, a tab, tags",
    )
    for side, what in (("from", "IN"), ("to", "OUT")):
        add(
            f"--scheme-{side}",
            required=True,
            type=str.upper,
            choices=list(PREFIXES),
            help=f"tagging scheme of {what}",
        )


def run(options: argparse.Namespace) -> None:
    conversion = Conversion(options.form, options.scheme_from, options.scheme_to)
    lines = conversion.rewrite(options.source)
    with _writing(options.target) as out:
        out.writelines(lines)
    sys.stderr.write(
        f"{options.target}: sentences {conversion.sentences}, entities {conversion.entities}, "
        f"comment lines kept {conversion.comments}\n"
    )


@contextmanager
def _writing(path: Path) -> Iterator[TextIO]:
    """Open a file that takes the name `path` when all was written; line ends stay as they are.

    Raises:
        DataError: the path is a folder, or the file system refuses it.
    """
    if path.is_dir():
        raise DataError(f"{path}: found a folder, expected the name of a file to write.")
    try:
        with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as out:
            yield out
    except OSError as err:
        raise DataError(f"{path}: cannot be written: {err.strerror}; name another file.") from err
