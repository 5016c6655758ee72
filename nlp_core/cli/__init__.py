"""The command `reglue`: models of one's own data, what there is to be had, files converted, tables.

Each command is a module of this package with `add_parser(subparsers)`, which names the function
that runs it. Only the module of the command that is asked for is imported, since torch takes
seconds that `reglue data list` does not need.
"""

import argparse
import importlib
import os
import sys
from importlib.metadata import version
from typing import NoReturn, TypeAlias

from nlp_core.errors import ConfigError, NlpCoreError

COMMANDS = {
    "new": "new",
    "train": "train",
    "test": "predict",
    "predict": "predict",
    "embed": "embed",
    "data": "data",
    "show": "show",
    "blocks": "blocks",
    "heads": "blocks",
    "tables": "tables",
    "zoo": "zoo",
    "submit": "submit",
    "convert": "convert",
    "export": "export",
    "bench": "bench",
    "serve": "serve",
}
"""The module of each command."""

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""Where a command adds its parser."""

EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141


class Parser(argparse.ArgumentParser):
    """A parser whose errors are those of users."""

    def error(self, message: str) -> NoReturn:
        """Refuse the arguments.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(f"{message}. `{self.prog} --help` says what there is.")


def main(arguments: list[str] | None = None) -> None:
    """Run the command.

    Args:
        arguments: what stands behind `reglue`; None: the process's own.

    Raises:
        SystemExit: with 2 when the arguments or a file are wrong, 130 when interrupted, 141 when
            the reader of the output went away.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        options = _build_parser(arguments[:1]).parse_args(arguments)
        options.run(options)
        sys.stdout.flush()
    except NlpCoreError as error:
        sys.stderr.write(f"error: {' '.join(str(error).split())}\n")
        raise SystemExit(EXIT_USER_ERROR) from None
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        raise SystemExit(EXIT_INTERRUPTED) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(EXIT_BROKEN_PIPE) from None
    except OSError as error:
        sys.stderr.write(f"error: {error.filename or 'a file'}: {error.strerror or error}.\n")
        raise SystemExit(EXIT_USER_ERROR) from None


def _build_parser(wanted: list[str]) -> argparse.ArgumentParser:
    """Return the parser of the wanted command, or of all when it is none of them."""
    modules = [COMMANDS[name] for name in wanted if name in COMMANDS] or COMMANDS.values()
    parser = Parser(prog="reglue", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--version", action="version", version=f"reglue {version('reglue')}")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")
    for module in dict.fromkeys(modules):
        importlib.import_module(f"nlp_core.cli.{module}").add_parser(subparsers)
    return parser
