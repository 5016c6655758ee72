"""`reglue submit`: write the zip that GLUE's site takes.

Examples:
    reglue submit sst2_bilstm rte_bilstm -o glue.zip
    reglue submit sst2_bilstm -o glue.zip --fill majority
"""

import argparse
from pathlib import Path

from rich.table import Table

from nlp_core.cli.output import open_console, print_json, show_log
from nlp_core.config.params import read_params
from nlp_core.files import check_writable
from nlp_core.report.submission import write_submission

GROUP = "reproduce tables"
PLACE = 11
HAS_JSON = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("cells", metavar="CELL", nargs="+", help="trained cells, one for each task")
    add("-o", "--output", type=Path, required=True, help="zip to write")
    add(
        "--task",
        action="append",
        default=[],
        help="a task that a multi-task cell predicts; may be repeated (default: all of its tasks)",
    )
    add("--seed", type=int, help="seed that predicts (default: the first of each cell)")
    add(
        "--fill",
        choices=["majority"],
        help="predict the most frequent training label for tasks without a cell",
    )


def run(options: argparse.Namespace) -> None:
    show_log("WARNING")
    check_writable(options.output, "-o")
    written = write_submission(
        options.output,
        options.cells,
        read_params(Path("params.yaml")),
        tasks=options.task,
        seed=options.seed,
        fill=options.fill is not None,
    )
    if options.json:
        # the predictions themselves, of hundreds of thousands of rows, are in the zip
        print_json([{"file": i.file, "origin": i.origin, "rows": i.rows} for i in written])
        return
    table = Table("file", "predicted by", "rows", box=None)
    for item in written:
        table.add_row(item.file, item.origin, f"{item.rows:,}")
    open_console().print(table)
    print(f"{options.output}: {len(written)} files")
