"""`reglue run`: train, measure and report one cell of a table.

Fetch what the cell needs, train its seeds, and write its scores to results/ and reports/; the
other cells stay as they are. Optional cells are trained only like this: `dvc repro` leaves them
out, since their data or weights, such as those of BERT-base, were not at hand. A killed run
resumes.

Examples:
    reglue run gluonnlp rte_bert_base
    reglue run glue qnli_bilstm
"""

import argparse
from functools import partial
from pathlib import Path

from nlp_core.cli.output import show_log
from nlp_core.cli.stage_run import build_missing, run_module
from nlp_core.config.base import check_known
from nlp_core.config.export import ExportConfig
from nlp_core.config.params import GRID, read_params
from nlp_core.errors import ConfigError

GROUP = "reproduce tables"
PLACE = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", metavar="TABLE", help="a table of grid/")
    parser.add_argument("cell", metavar="CELL", help="one of its cells, which may be optional")


def run(options: argparse.Namespace) -> None:
    root, table, cell = Path(), options.table, options.cell
    params = read_params(root / "params.yaml")
    items = params.list_cells(table, params.optional)
    cells = {
        name: item
        for name, item in items.items()
        if item.table == table and not isinstance(item, ExportConfig)
    }
    check_known(f"{GRID}/{table}.yaml", "cell", cell, cells, ConfigError)
    # two seconds of torch, after the command line has been checked
    from nlp_core.report.cell import Place, name_stage
    from nlp_core.report.evaluation import evaluate_table, read_kept
    from nlp_core.report.missing_stages import list_missing_stages
    from nlp_core.report.table import write_report
    from nlp_core.training.cell import read_cell
    from nlp_core.training.cell_run import train_cell

    show_log("INFO")
    read_kept(table, [cell], params, root)  # a fault in the other cells, before hours of training
    if cell in params.optional:
        places = [Place(table, cell, seed) for seed in params.experiments[cell].seeds]
        build_missing(partial(list_missing_stages, places, params, root), params, root)
        train_cell(read_cell(cell, params))
    else:
        run_module("dvc", "repro", name_stage(cell, cells[cell]))
    evaluate_table(table, root, only=[cell])
    write_report(table, root)
    print(f"reports/{table}.md has the scores of {cell}.")
