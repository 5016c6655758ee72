"""`reglue blocks`: the blocks of model files."""

import argparse

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from nlp_core.blocks.base import BLOCKS, Block
from nlp_core.cli.program import Command
from nlp_core.heads.base import Head
from nlp_core.models.documentation import Documentation, Option, document
from nlp_core.registry import Registry

COMMAND = Command(
    group="look things up",
    place=4,
    summary="list the blocks that a model file can use",
    examples=("reglue blocks", "reglue blocks bilstm"),
    description="List the blocks of model files, or show the options of one.",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="a block (default: list all)")


def run(options: argparse.Namespace) -> None:
    print_parts(BLOCKS, options.name)


def print_parts(registry: Registry[type[Block]] | Registry[type[Head]], name: str | None) -> None:
    """Print the documentation of one of a registry's parts, or the list of them."""
    console = Console(markup=False, highlight=False)
    if name is None:
        _print_list(console, registry)
    else:
        _print_one(console, name, document(registry.get(name)))


def _print_list(console: Console, registry: Registry[type[Block]] | Registry[type[Head]]) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name in registry.names():
        table.add_row(name, document(registry.get(name)).summary)
    console.print(table)


def _print_one(console: Console, name: str, found: Documentation) -> None:
    console.print(Text(name, style="bold"))
    for paragraph in (found.summary, *found.details):
        console.print(Padding(Text(paragraph), (0, 0, 0, 2)))
    console.print()
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column()
    for fact, text in (
        ("inputs", found.inputs),
        ("serves", ", ".join(found.serves)),
        ("shape", found.shape),
        ("source", found.source),
        ("note", found.note),
    ):
        if text:
            facts.add_row(f"  {fact}", Text(text))
    console.print(facts)
    if found.options:
        console.print(_build_options(found.options))
    else:
        console.print("\n  It has no options.")


def _build_options(options: list[Option]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("option", no_wrap=True, style="bold")
    table.add_column("value")
    table.add_column("default", overflow="fold")
    table.add_column("what it does", ratio=1)
    for option in options:
        default = "must be given" if option.default is None else option.default
        table.add_row(option.name, option.form, default, option.text)
    return table
