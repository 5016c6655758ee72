"""The program `reglue`: find its commands, list them, and run one.

Each command is a module of this package named like it, with a `COMMAND`, `add_arguments(parser)`
and `run(options)`. `reglue --help` imports none of them, since torch takes seconds: it reads
`COMMAND`, which is literal, from the source.
"""

import argparse
import ast
import importlib
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple, NoReturn

from nlp_core.errors import ConfigError, NlpCoreError, suggest

GROUPS = (
    "train on your own file",
    "export and serve",
    "reproduce tables",
    "look things up",
)
"""The groups of commands, in the order of `reglue --help`."""
EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141


class Command(NamedTuple):
    """What `reglue --help` and the command's own `--help` show.

    Attributes:
        group: one of GROUPS.
        place: orders the commands of a group.
        summary: a line without a full stop.
        examples: command lines.
        description: more than the summary says; empty: the summary is enough.
    """

    group: str
    place: int
    summary: str
    examples: tuple[str, ...]
    description: str = ""


class Parser(argparse.ArgumentParser):
    """A parser that reports wrong arguments as a user's mistake."""

    def error(self, message: str) -> NoReturn:
        """Report wrong arguments.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(f"{message}. `{self.prog} --help` lists the options.")


class Formatter(argparse.HelpFormatter):
    """Help text that keeps the lines of examples and wraps everything else."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)


def find_commands() -> dict[str, Command]:
    """Return the commands by name, in the order of `reglue --help`, without importing them."""
    found = {}
    for path in Path(__file__).parent.glob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            match node:
                case ast.Assign(
                    targets=[ast.Name(id="COMMAND")], value=ast.Call(keywords=keywords)
                ):
                    values = {str(item.arg): ast.literal_eval(item.value) for item in keywords}
                    found[path.stem] = Command(**values)
    return dict(
        sorted(found.items(), key=lambda item: (GROUPS.index(item[1].group), item[1].place))
    )


def main(arguments: list[str] | None = None) -> None:
    """Run the command.

    Args:
        arguments: those after `reglue`; None: the process's own.

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
    """Return a parser that knows the wanted command, or lists all if it is none of them.

    Raises:
        ConfigError: the wanted command does not exist.
    """
    parser = Parser(prog="reglue", formatter_class=Formatter)
    parser.add_argument("--version", action="version", version=f"reglue {version('reglue')}")
    name = wanted[0] if wanted else ""
    commands = find_commands()
    if name in commands:
        _add_command(parser, name, commands[name])
    elif name and not name.startswith("-"):
        raise ConfigError(f"reglue: unknown command '{name}'. {suggest(name, commands)}")
    else:
        parser.usage, parser.description = "reglue COMMAND ...", _list_commands(commands)
        parser.add_argument("command", help=argparse.SUPPRESS)
    return parser


def _add_command(parser: Parser, name: str, command: Command) -> None:
    module = importlib.import_module(f"nlp_core.cli.{name}")
    summary = f"{command.summary[0].upper()}{command.summary[1:]}."
    added = parser.add_subparsers(required=True).add_parser(
        name,
        description=command.description or summary,
        epilog="\n  ".join(["examples:", *command.examples]),
        formatter_class=Formatter,
    )
    module.add_arguments(added)
    added.set_defaults(run=module.run)


def _list_commands(commands: dict[str, Command]) -> str:
    """Return the commands by group, each group with an example."""
    lines = ["Regenerate result tables of NLU papers; train and serve models on your own data."]
    for group in GROUPS:
        members = {name: item for name, item in commands.items() if item.group == group}
        lines += ["", f"{group}:"]
        lines += [f"  {name:9} {item.summary}" for name, item in members.items()]
        lines.append(f"  {'':9} example: {next(iter(members.values())).examples[0]}")
    return "\n".join([*lines, "", "`reglue COMMAND --help` shows options and examples."])
