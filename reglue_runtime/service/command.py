"""The command line of the service, for `reglue serve` and `python -m reglue_runtime.service`."""

import argparse
import logging
import sys
from dataclasses import fields

from reglue_runtime.error import BundleError
from reglue_runtime.service.server import serve
from reglue_runtime.service.settings import Settings

DESCRIPTION = "Serve bundles over HTTP: /predict, /health, /metrics, /openapi.json, and a page."
DEFAULTS = Settings()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "bundles",
        nargs="+",
        metavar="BUNDLE",
        help="a folder that `reglue export` wrote, or NAME=FOLDER",
    )
    parser.add_argument("--host", default=DEFAULTS.host, help="address (default: %(default)s)")
    parser.add_argument(
        "--port",
        type=_read_port,
        default=DEFAULTS.port,
        help="port, 0 for a free one (default: %(default)s)",
    )
    counts = {
        "--max-batch": "examples per batch, 1 for no batching (default: %(default)s)",
        "--max-queue": "examples that may wait for a bundle; more get 429 (default: %(default)s)",
        "--max-body": "largest request in bytes; larger ones get 413 (default: %(default)s)",
        "--max-text": "longest example in characters; longer ones get 422 (default: %(default)s)",
        "--threads": "threads per prediction (default: %(default)s)",
    }
    for name, text in counts.items():
        default = getattr(DEFAULTS, name[2:].replace("-", "_"))
        parser.add_argument(name, type=_read_count, default=default, metavar="N", help=text)
    parser.add_argument(
        "--max-wait-ms",
        type=_read_time,
        default=DEFAULTS.max_wait_ms,
        metavar="MS",
        help="longest wait for a batch to fill, in milliseconds (default: %(default)g)",
    )
    parser.add_argument(
        "--timeout",
        type=_read_time,
        default=DEFAULTS.timeout,
        metavar="S",
        help="seconds for a request to arrive, else 408, and to be answered, else 503 (default: "
        "%(default)g)",
    )


def run(options: argparse.Namespace) -> None:
    """Serve until a signal comes.

    Raises:
        BundleError: a folder is no bundle, or the address cannot be bound.
    """
    logging.basicConfig(level="INFO", format="%(message)s", stream=sys.stderr, force=True)
    logging.getLogger("uvicorn").setLevel("WARNING")
    names = [field.name for field in fields(Settings)]
    serve(options.bundles, Settings(**{name: getattr(options, name) for name in names}))


def main() -> None:
    parser = argparse.ArgumentParser(prog="reglue-serve", description=DESCRIPTION)
    add_arguments(parser)
    try:
        run(parser.parse_args())
    except BundleError as err:
        sys.stderr.write(f"error: {err}\n")
        raise SystemExit(2) from None


def _read_count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"found {value}, expected 1 or more")
    return value


def _read_port(text: str) -> int:
    value = int(text)
    if not 0 <= value < 1 << 16:
        raise argparse.ArgumentTypeError(f"found {value}, expected 0 to 65535")
    return value


def _read_time(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1e6:
        raise argparse.ArgumentTypeError(f"found {text}, expected 0 or more")
    return value
