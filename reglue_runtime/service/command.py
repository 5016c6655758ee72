"""The command line of the service, for `reglue serve` and `python -m reglue_runtime.service`."""

import argparse
import logging
import sys

from reglue_runtime.manifest import BundleError
from reglue_runtime.service.server import serve
from reglue_runtime.service.settings import add_options, read_options

DESCRIPTION = "Serve bundles over HTTP: /predict, /health, /metrics, /openapi.json, and a page."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    folders = "a folder that `reglue export` wrote, or NAME=FOLDER"
    parser.add_argument("bundles", nargs="+", metavar="BUNDLE", help=folders)
    add_options(parser)


def run(options: argparse.Namespace) -> None:
    """Serve until a signal comes.

    Raises:
        BundleError: a folder is no bundle, or the address cannot be bound.
    """
    logging.basicConfig(level="INFO", format="%(message)s", stream=sys.stderr, force=True)
    logging.getLogger("uvicorn").setLevel("WARNING")
    serve(options.bundles, read_options(options))


def main() -> None:
    parser = argparse.ArgumentParser(prog="reglue-serve", description=DESCRIPTION)
    add_arguments(parser)
    try:
        run(parser.parse_args())
    except BundleError as err:
        sys.stderr.write(f"error: {err}\n")
        raise SystemExit(2) from None
