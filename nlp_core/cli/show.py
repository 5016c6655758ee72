"""`reglue show`: check a model file and show its layers with shapes.

Examples:
    reglue show zoo/wikiqa/cnn.json
    reglue show zoo/wikiqa/cnn.json --svg cnn.svg
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.table import Column, Table
from rich.text import Text

from nlp_core.cli.output import check_output, open_console, print_json
from nlp_core.config.model import ModelConfig, read_model
from nlp_core.errors import UsageError
from nlp_core.files import write_text
from nlp_core.models.description import Node, describe_plan, write_mermaid
from nlp_core.models.plan import plan_model
from nlp_core.site.picture import write_picture

LETTERS = "B examples, T tokens, C characters; '-': depends on the data's words or labels."
GROUP = "look things up"
PLACE = 3
HAS_JSON = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", metavar="FILE.json", type=Path, help="such as zoo/glue/*.json")
    add("--mermaid", action="store_true", help="print a Mermaid flowchart instead of the table")
    add("--svg", metavar="FILE.svg", type=Path, help="draw the model instead of printing the table")


def run(options: argparse.Namespace) -> None:
    forms = [name for name in ("mermaid", "svg", "json") if getattr(options, name)]
    if len(forms) > 1:
        raise UsageError(f"show: found --{forms[0]} and --{forms[1]}, expected one of them.")
    config = read_model(options.model)
    nodes = describe_plan(plan_model(config, where=str(options.model)))
    if options.svg is not None:
        check_output(options.svg, options.model, "--svg")
        if options.svg.suffix.lower() != ".svg":
            raise UsageError(f"--svg: found '{options.svg}', expected a name that ends in .svg.")
        write_text(options.svg, write_picture(nodes))
    elif options.mermaid:
        sys.stdout.write(write_mermaid(nodes))
    elif options.json:
        print_json(nodes)
    else:
        _print_table(config, nodes)


def _print_table(config: ModelConfig, nodes: Sequence[Node]) -> None:
    console = open_console()
    table = Table(
        Column("name", no_wrap=True),
        "what",
        Column("shape", no_wrap=True),
        Column("parameters", justify="right", no_wrap=True),
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for idx, node in enumerate(nodes):
        is_last = idx + 1 == len(nodes) or nodes[idx + 1].sort != node.sort
        table.add_row(*_build_row(node), end_section=is_last)
    console.print(Text(config.description, style="bold"))
    console.print(config.source)
    console.print(table)
    counted = sum(node.parameters or 0 for node in nodes)
    console.print(f"{counted:,} parameters, without vocabularies and heads. {LETTERS}")


def _build_row(node: Node) -> list[Text]:
    reads = ", ".join(key.partition("_")[2] for key in node.reads)
    what = Text(f"{node.what}({reads})" if reads else node.what)
    if node.sort != "layer":
        what = Text(f"{node.sort} ").append(what)
    if node.shares:
        what.append(f", shares {node.shares}", style="bold")
    if node.options:
        what.append("\n" + ", ".join(node.options), style="dim")
    count = "-" if node.parameters is None else f"{node.parameters:,}"
    return [
        Text(node.name, style="bold"),
        what,
        Text(f"reads {node.shape}" if node.sort == "head" else node.shape),
        Text("" if node.sort == "input" else count),
    ]
