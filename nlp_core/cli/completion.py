"""`reglue completion`: print a script that completes commands and options.

Print a script that completes commands, options and file names. Run it where the shell starts, such
as `eval "$(reglue completion bash)"` in ~/.bashrc or, after compinit, in ~/.zshrc.

Examples:
    reglue completion bash
    reglue completion fish
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import shtab

from nlp_core.cli.program import build_parser, find_commands
from nlp_core.data.archive import open_data

GROUP = "look things up"
PLACE = 6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=["bash", "zsh", "fish"], help="the shell")


def run(options: argparse.Namespace) -> None:
    parser = build_parser(find_commands())
    for action in _list_actions(parser):
        if action.type in (Path, open_data) or action.metavar == "BUNDLE":
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(parser, options.shell))


def _list_actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for part in action.choices.values():
                yield from _list_actions(part)
