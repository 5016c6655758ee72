"""`reglue convert`: write a tagged file in another tagging scheme.

Write a file with its tags in another scheme. Nothing else in it changes.

Examples:
    reglue convert in.conll out.conll --from conll2003 --scheme-from IOB1 --scheme-to BIOES
    reglue convert in.tsv out.tsv --from tsv --scheme-from BIO --scheme-to BILOU
"""

import argparse
import sys
from pathlib import Path
from typing import get_args

from nlp_core.data.conversion import Conversion, Form
from nlp_core.data.tagging_scheme import PREFIXES
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
    target = options.target
    # line ends stay as they are
    with replacing(target) as temporary, temporary.open("w", encoding="utf-8", newline="") as out:
        out.writelines(lines)
    sys.stderr.write(
        f"{options.target}: sentences {conversion.sentences}, entities {conversion.entities}, "
        f"comment lines kept {conversion.comments}\n"
    )
