"""Run one stage from the command line: parse, log, call, and turn a user's mistake into exit 2.

Every stage is started as `python -m stages.<name> ...` from the project's root.
"""

import argparse
import logging
import sys
from collections.abc import Callable
from typing import TextIO

from nlp_core.errors import exit_on_error

LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s"


def run_stage(main: Callable[[argparse.Namespace], None], parser: argparse.ArgumentParser) -> None:
    """Parse the command line, with `--log-level`, and call `main` with it.

    Raises:
        SystemExit: the arguments are wrong, the user made a mistake or stopped the stage.
    """
    parser.add_argument(
        "--log-level", default="INFO", choices=["DEBUG", "INFO", "WARNING", "ERROR"], help="INFO"
    )
    arguments = parser.parse_args()
    configure_logging(arguments.log_level, sys.stderr)
    with exit_on_error():
        main(arguments)


def configure_logging(level: str, stream: TextIO) -> None:
    """Send log lines to `stream`: coloured on a terminal, else as plain `time level message`."""
    if stream.isatty():
        # Imported here: 0.1 s that no stage run by an engine needs.
        from rich.console import Console
        from rich.logging import RichHandler

        handler: logging.Handler = RichHandler(
            console=Console(file=stream), show_path=False, markup=False
        )
        handler.setFormatter(logging.Formatter("%(message)s", datefmt="[%X]"))
    else:
        handler = logging.StreamHandler(stream)
        handler.setFormatter(logging.Formatter(LOG_FORMAT, datefmt="%H:%M:%S"))
    logging.basicConfig(level=level, handlers=[handler], force=True)
