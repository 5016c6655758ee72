"""`reglue heads`: list the heads that a model file can end in.

List the heads of model files, or show the options of one.

Examples:
    reglue heads
    reglue heads crf_tagging
"""

import argparse

from nlp_core.cli.blocks import print_parts
from nlp_core.heads import HEADS

GROUP = "look things up"
PLACE = 5
HAS_JSON = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="a head; without it, list all")


def run(options: argparse.Namespace) -> None:
    print_parts(HEADS, options)
