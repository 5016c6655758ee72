"""`reglue serve`: predict over HTTP with bundles.

Examples:
    reglue serve bundles/reviews --port 8000
    reglue serve reviews=bundles/reviews flights=bundles/atis
"""

import argparse

from nlp_core.errors import ExportError
from reglue_runtime.manifest import BundleError
from reglue_runtime.service import server

GROUP = "export and serve"
PLACE = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = server.DESCRIPTION
    server.add_arguments(parser)


def run(options: argparse.Namespace) -> None:
    try:
        server.run(options)
    except BundleError as err:
        raise ExportError(str(err)) from err
