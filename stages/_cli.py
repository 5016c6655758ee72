"""Run one stage from the command line: parse, log, call, and turn a user's mistake into exit 2.

Every stage is started as `python -m stages.<name> ...` from the project's root.
"""

import argparse
import logging
import sys
from collections.abc import Callable
from typing import TextIO

from nlp_core.errors import NlpCoreError

EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130
LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s"


def run_stage(main: Callable[[argparse.Namespace], None], parser: argparse.ArgumentParser) -> None:
    """Parse the command line, call `main` with it and leave the process when that failed.

    A `NlpCoreError` becomes one paragraph `error: ...` on standard error and exit code 2, an
    interrupt exit code 130. Any other error is ours and keeps its traceback.

    Args:
        main: the stage's work.
        parser: the stage's arguments; `--log-level` is added to them.

    Raises:
        SystemExit: when the arguments are wrong, the user made a mistake or stopped the stage.
    """
    parser.add_argument(
        "--log-level", default="INFO", choices=["DEBUG", "INFO", "WARNING", "ERROR"], help="INFO"
    )
    arguments = parser.parse_args()
    configure_logging(arguments.log_level, sys.stderr)
    try:
        main(arguments)
    except NlpCoreError as error:
        sys.stderr.write(f"error: {' '.join(str(error).split())}\n")
        raise SystemExit(EXIT_USER_ERROR) from None
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        raise SystemExit(EXIT_INTERRUPTED) from None


def configure_logging(level: str, stream: TextIO) -> None:
    """Send log lines to `stream`: coloured by rich on a terminal, plain `time level message` else.

    Args:
        level: the lowest level that is shown, such as "INFO".
        stream: where the lines go; standard output stays free for results.
    """
    handler = _build_rich_handler(stream) if stream.isatty() else logging.StreamHandler(stream)
    if not stream.isatty():
        handler.setFormatter(logging.Formatter(LOG_FORMAT, datefmt="%H:%M:%S"))
    logging.basicConfig(level=level, handlers=[handler], force=True)


def _build_rich_handler(stream: TextIO) -> logging.Handler:
    # Imported here: 0.1 s that no stage run by an engine needs.
    from rich.console import Console
    from rich.logging import RichHandler

    handler = RichHandler(console=Console(file=stream), show_path=False, markup=False)
    handler.setFormatter(logging.Formatter("%(message)s", datefmt="[%X]"))
    return handler
