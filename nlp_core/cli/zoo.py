"""`reglue zoo`: list the model files to start from."""

import argparse
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from nlp_core.cli.output import writing
from nlp_core.cli.program import Command
from nlp_core.report.zoo import list_zoo, render_zoo

README = Path("zoo") / "README.md"


COMMAND = Command(
    group="look things up",
    place=2,
    summary="list the model files to start from and their scores",
    examples=("reglue zoo", "reglue zoo --readme"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--readme", action="store_true", help=f"write {README} instead")


def run(options: argparse.Namespace) -> None:
    models = list_zoo(Path())
    if options.readme:
        with writing(README) as out:
            out.write(render_zoo(models))
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("file under zoo/", style="bold", no_wrap=True)
    for name in ("what it is", "task", "result"):
        table.add_column(name, overflow="fold")
    for model in models:
        results = "\n".join(result.number for result in model.results)
        table.add_row(model.path, model.description, ", ".join(model.tasks), results or "-")
    Console(markup=False, highlight=False).print(table)
