"""`reglue blocks`: list the blocks that a model file can use.

List the blocks of model files, or show the options of one.

Examples:
    reglue blocks
    reglue blocks bilstm
"""

import argparse

from rich import box
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from nlp_core.blocks.base import BLOCKS, Block
from nlp_core.cli.output import open_console, print_json
from nlp_core.heads.base import Head
from nlp_core.models.documentation import Documentation, document
from nlp_core.registry import Registry

GROUP = "look things up"
PLACE = 4
HAS_JSON = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="a block; without it, list all")


def run(options: argparse.Namespace) -> None:
    print_parts(BLOCKS, options)


def print_parts(
    registry: Registry[type[Block]] | Registry[type[Head]], options: argparse.Namespace
) -> None:
    """Print the documentation of the part of a registry that is named, or the list of all."""
    names = registry.names() if options.name is None else [options.name]
    found = {name: document(registry.get(name)) for name in names}
    if options.json:
        print_json(found)
    elif options.name is None:
        table = Table.grid(Column(style="bold", no_wrap=True), Column(), padding=(0, 2))
        for name, part in found.items():
            table.add_row(name, part.summary)
        open_console().print(table)
    else:
        _print_one(options.name, found[options.name])


def _print_one(name: str, found: Documentation) -> None:
    console = open_console()
    console.print(Text(name, style="bold"))
    for paragraph in (found.summary, *found.details):
        console.print(Padding(Text(paragraph), (0, 0, 0, 2)))
    console.print()
    facts = Table.grid(Column(style="dim", no_wrap=True), Column(), padding=(0, 2))
    for fact in ("inputs", "serves", "shape", "source", "note"):
        value = getattr(found, fact)
        if value:
            text = value if isinstance(value, str) else ", ".join(value)
            facts.add_row(f"  {fact}", Text(text))
    console.print(facts)
    if not found.options:
        console.print("\n  It has no options.")
        return
    table = Table(
        Column("option", no_wrap=True, style="bold"),
        "value",
        Column("default", overflow="fold"),
        Column("what it does", ratio=1),
        box=box.SIMPLE_HEAD,
    )
    for option in found.options:
        default = "must be given" if option.default is None else option.default
        table.add_row(option.name, option.form, default, option.text)
    console.print(table)
