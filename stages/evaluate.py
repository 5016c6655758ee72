"""Measure the trained cells of a table: `python -m stages.evaluate <table>`.

Reads artifacts/cells/<table>/, writes results/<table>.json. `--cell <cell>` measures only
that cell and keeps the numbers of the others, so one cell can be retrained and compared without
the rest. Exports are timed: nothing else should run on the machine then.
"""

import argparse
from pathlib import Path

from nlp_core.config.params import Params
from nlp_core.report.evaluation import ExportTimes, evaluate_table
from stages._cli import run_stage


def time_export(cell: str, params: Params, root: Path) -> ExportTimes:
    """Time an export; only a table that has one waits for the import."""
    from nlp_core.export import timing

    return timing.time_export(cell, params, root)


def main(arguments: argparse.Namespace) -> None:
    evaluate_table(arguments.table, Path(), only=arguments.cell, time_export=time_export)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", help="a table of grid/")
    parser.add_argument(
        "--cell", action="append", default=[], help="measure only this cell; may be repeated"
    )
    run_stage(main, parser)
