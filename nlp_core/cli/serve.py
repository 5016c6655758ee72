"""`reglue serve`: serve bundles over HTTP, without torch."""

import argparse

from nlp_core.cli import Subparsers, add_command
from nlp_core.errors import ExportError
from reglue_runtime.manifest import BundleError
from reglue_runtime.service import command


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "serve", command.DESCRIPTION)
    command.add_arguments(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    try:
        command.run(options)
    except BundleError as err:
        raise ExportError(str(err)) from err
