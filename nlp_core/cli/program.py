"""The program `reglue`: find its commands, list them, and run one.

Each command is a module of this package with the same name. It has a GROUP and a PLACE in it,
`add_arguments(parser)` and `run(options)`, and HAS_JSON if it can print JSON. Its docstring is its
help text: a summary, perhaps a paragraph, and examples. `reglue --help` reads the sources and
imports no command, since torch takes seconds.
"""

import argparse
import ast
import importlib
import io
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from nlp_core.errors import (
    FULL,
    NlpCoreError,
    UsageError,
    describe_os_error,
    exit_on_error,
    suggest,
)
from nlp_core.progress import hide_progress

GROUPS = (
    "train on your own file",
    "export and serve",
    "reproduce tables",
    "look things up",
)
"""The groups of commands, in the order of `reglue --help`."""
EXIT_BROKEN_PIPE = 141


class Command(NamedTuple):
    """What `reglue --help` and the command's own `--help` show.

    Attributes:
        place: orders the commands of a group.
        summary: a line without a full stop.
        description: more than the summary says; empty: the summary is enough.
    """

    group: str
    place: int
    summary: str
    description: str
    examples: list[str]
    has_json: bool = False


class Formatter(argparse.HelpFormatter):
    """Help text with each option's default that keeps the lines of examples and wraps the rest."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)

    def _get_help_string(self, action: argparse.Action) -> str | None:
        is_shown = action.default not in (None, False, [], "", argparse.SUPPRESS)
        return f"{action.help} (default: %(default)s)" if is_shown else action.help


class Parser(argparse.ArgumentParser):
    """A parser that reports wrong arguments as a user's mistake."""

    def __init__(self, **options: Any) -> None:  # Any: the options of argparse
        super().__init__(formatter_class=Formatter, conflict_handler="resolve", **options)

    @property
    def version(self) -> str:
        from importlib.metadata import version  # a fifth of the time of `reglue --help`

        return f"reglue {version('reglue')}"

    def error(self, message: str) -> NoReturn:
        """Report wrong arguments.

        Raises:
            UsageError: always.
        """
        raise UsageError(f"{message}. `{self.prog} --help` lists the options.")


def find_commands() -> dict[str, Command]:
    """Return the commands by name, in the order of `reglue --help`, without importing them."""
    found = {}
    for path in sorted(Path(__file__).parent.glob("*.py")):
        tree, values = ast.parse(path.read_text(encoding="utf-8")), dict[str, Any]()
        for node in tree.body:
            match node:
                case ast.Assign(
                    [ast.Name("GROUP" | "PLACE" | "HAS_JSON" as name)], ast.Constant(value)
                ):
                    values[name.lower()] = value
        if values:
            text, _, examples = (ast.get_docstring(tree) or "").partition("\n\nExamples:\n")
            summary, _, description = text.partition("\n\n")
            found[path.stem] = Command(
                summary=summary.partition(": ")[2].removesuffix("."),
                description=description,
                examples=[line.strip() for line in examples.splitlines()],
                **values,
            )
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
    _prepare_streams()
    try:
        with exit_on_error():
            _run(_parse(arguments))
    except BrokenPipeError:
        _drop_output()
        raise SystemExit(EXIT_BROKEN_PIPE) from None


def _prepare_streams() -> None:
    """Let a standard stream that the caller closed read or write nothing; print any file's name."""
    for name in ("stdin", "stdout", "stderr"):  # in this order they get the numbers 0, 1 and 2
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDONLY if name == "stdin" else os.O_WRONLY)
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, "r" if name == "stdin" else "w"))
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="surrogateescape")  # names of files may not be UTF-8


def _run(options: argparse.Namespace) -> None:
    """Run a parsed command.

    Raises:
        NlpCoreError: a file cannot be read or written, or what the command raises.
    """
    given = vars(options)
    try:
        with ExitStack() as stack:
            if given.get("quiet"):
                stack.enter_context(_silenced())
            if given.get("quiet") or given.get("only_verdicts") or given.get("json"):
                stack.enter_context(hide_progress())
            options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is None and _is_output_lost(error):
            error.filename = "standard output"
            _drop_output()
        raise NlpCoreError(describe_os_error(error)) from error


def _is_output_lost(error: OSError) -> bool:
    """Return whether an error without a file is one of standard output."""
    try:
        sys.stdout.flush()
    except OSError:
        return True
    # with PYTHONUNBUFFERED=1 nothing is left to flush
    is_raw = isinstance(getattr(sys.stdout, "buffer", None), io.RawIOBase)
    return is_raw and error.errno in FULL


def _drop_output() -> None:
    """Let the end of the process lose what was printed, without a further error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _silenced() -> Iterator[None]:
    """Drop what is printed and logged, except warnings and errors."""
    import logging  # not needed by `reglue --help`

    logging.disable(logging.INFO)
    try:
        with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
            yield
    finally:
        logging.disable(logging.NOTSET)


def _parse(arguments: list[str]) -> argparse.Namespace:
    """Parse the arguments of a command, or list all commands if none is named.

    Raises:
        UsageError: the command does not exist, or its arguments are wrong.
    """
    commands = find_commands()
    name = next(iter(arguments), "-")
    if name in commands:
        return build_parser({name: commands[name]}).parse_args(arguments)
    if not name.startswith("-"):
        raise UsageError(f"reglue: unknown command '{name}'. {suggest(name, commands)}")
    parser = build_parser({})
    parser.usage, parser.description = "reglue COMMAND ...", _list_commands(commands)
    parser.add_argument("command", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def build_parser(commands: dict[str, Command]) -> Parser:
    """Return a parser of some commands, whose modules are imported."""
    parser = Parser(prog="reglue")
    parser.add_argument("--version", action="version")
    if not commands:
        return parser
    added = parser.add_subparsers(required=True)
    for name, command in commands.items():
        module = importlib.import_module(f"nlp_core.cli.{name}")
        text = command.summary, command.description, command.examples
        item = add_action(added, name, *text, has_json=command.has_json)
        module.add_arguments(item)
        item.set_defaults(run=module.run)
    return parser


def add_action(
    actions: "argparse._SubParsersAction[Any]",  # Any: mypy would have two types of parsers
    name: str,
    summary: str,
    description: str,
    examples: Iterable[str],
    *,
    has_json: bool,
) -> argparse.ArgumentParser:
    """Add a command, or an action of one, with a help text that ends in examples."""
    parser: argparse.ArgumentParser = actions.add_parser(
        name,
        help=summary,
        description=" ".join(description.split()) or f"{summary[0].upper()}{summary[1:]}.",
        epilog="\n  ".join(["examples:", *examples]),
    )
    # no default: that of an action would hide the option of its command
    parser.add_argument(
        "--quiet",
        action="store_true",
        default=argparse.SUPPRESS,
        help="print only warnings and errors",
    )
    if has_json:
        parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _list_commands(commands: dict[str, Command]) -> str:
    """Return the commands by group, each group with an example."""
    lines = ["Regenerate result tables of NLU papers; train and serve models on your own data."]
    for group in GROUPS:
        members = {name: item for name, item in commands.items() if item.group == group}
        lines += ["", f"{group}:"]
        lines += [f"  {name:10} {item.summary}" for name, item in members.items()]
        lines.append(f"  {'':10} example: {next(iter(members.values())).examples[0]}")
    return "\n".join([*lines, "", "`reglue COMMAND --help` shows options and examples."])
