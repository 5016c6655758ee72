"""The command line of the service, for `reglue serve` and `python -m reglue_runtime.service`."""

import argparse
import logging
import math
import sys
from collections.abc import Callable
from dataclasses import fields

from reglue_runtime.error import BundleError
from reglue_runtime.service.server import serve
from reglue_runtime.service.settings import Settings

DESCRIPTION = "Serve bundles over HTTP: /predict, /health, /metrics, /openapi.json, and a page."
DEFAULTS = Settings()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    folders = "a folder that `reglue export` wrote, or NAME=FOLDER"
    parser.add_argument("bundles", nargs="+", metavar="BUNDLE", help=folders)
    count, seconds = _within(int, 1), _within(float, 0, 1e6)
    for name, form, unit, text in (
        ("host", str, "HOST", "address"),
        ("port", _within(int, 0, 65535), "PORT", "port, 0 for a free one"),
        ("max-batch", count, "N", "examples per batch, 1 for no batching"),
        ("max-queue", count, "N", "examples that may wait for a bundle; more get 429"),
        ("max-body", count, "N", "largest request in bytes; larger ones get 413"),
        ("max-text", count, "N", "longest example in characters; longer ones get 422"),
        ("threads", count, "N", "threads per prediction"),
        ("max-wait-ms", seconds, "MS", "longest wait for a batch to fill, in milliseconds"),
        (
            "timeout",
            seconds,
            "S",
            "seconds for a request to arrive, else 408, and to be answered, else 503",
        ),
    ):
        default = getattr(DEFAULTS, name.replace("-", "_"))
        text += " (default: %(default)s)"
        parser.add_argument(f"--{name}", type=form, default=default, metavar=unit, help=text)


def _within(
    kind: type[int] | type[float], least: float, most: float = math.inf
) -> Callable[[str], float]:
    def number(text: str) -> float:
        value = kind(text)
        if not least <= value <= most:
            bounds = f"{least} or more" if most == math.inf else f"{least} to {most:.7g}"
            raise argparse.ArgumentTypeError(f"found {text}, expected {bounds}")
        return value

    return number


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
