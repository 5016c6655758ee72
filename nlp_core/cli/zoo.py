"""`reglue zoo`: list the model files to start from and their scores.

Examples:
    reglue zoo
    reglue zoo --readme
"""

import argparse
from pathlib import Path

from rich import box
from rich.table import Column, Table

from nlp_core.cli.output import open_console, print_json
from nlp_core.files import write_text
from nlp_core.report.zoo import list_zoo, render_zoo

README = Path("zoo") / "README.md"
GROUP = "look things up"
PLACE = 2
HAS_JSON = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--readme", action="store_true", help=f"write {README} instead")


def run(options: argparse.Namespace) -> None:
    models = list_zoo(Path())
    if options.readme:
        write_text(README, render_zoo(models))
        return
    if options.json:
        print_json(models)
        return
    path = Column("file under zoo/", style="bold", no_wrap=True)
    others = [Column(name, overflow="fold") for name in ("what it is", "task", "result")]
    table = Table(path, *others, box=box.SIMPLE_HEAD, pad_edge=False)
    for model in models:
        results = "\n".join(result.number for result in model.results)
        table.add_row(model.path, model.description, ", ".join(model.tasks), results or "-")
    open_console().print(table)
