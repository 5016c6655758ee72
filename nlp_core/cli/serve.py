"""`reglue serve`: serve bundles over HTTP, without torch."""

import argparse

from nlp_core.cli.program import Command
from nlp_core.errors import ExportError
from reglue_runtime.manifest import BundleError
from reglue_runtime.service import server

COMMAND = Command(
    group="export and serve",
    place=3,
    summary="predict over HTTP with bundles",
    examples=(
        "reglue serve bundles/reviews --port 8000",
        "reglue serve reviews=bundles/reviews flights=bundles/atis",
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = server.DESCRIPTION
    server.add_arguments(parser)


def run(options: argparse.Namespace) -> None:
    try:
        server.run(options)
    except BundleError as err:
        raise ExportError(str(err)) from err
