"""`reglue heads`: the heads of model files."""

import argparse

from nlp_core.cli.blocks import print_parts
from nlp_core.cli.program import Command
from nlp_core.heads import HEADS

COMMAND = Command(
    group="look things up",
    place=5,
    summary="list the heads that a model file can end in",
    examples=("reglue heads", "reglue heads crf_tagging"),
    description="List the heads of model files, or show the options of one.",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="a head (default: list all)")


def run(options: argparse.Namespace) -> None:
    print_parts(HEADS, options.name)
