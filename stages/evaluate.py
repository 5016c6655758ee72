"""Measure the trained cells of a table: `python -m stages.evaluate <table>`.

Reads artifacts/finetune/<table>/, writes results/<table>.json. `--cell <cell>` measures that cell
alone and keeps the numbers that the file has of the others, so one cell can be trained again and
compared without the rest. For a table of pretrained encoders,
`python -m stages.evaluate --encoders <table>`, it reads artifacts/pretrain/.
"""

import argparse
from pathlib import Path

from nlp_core.report.evaluation import evaluate_table
from nlp_core.report.pretraining import evaluate_encoders
from stages._cli import run_stage


def main(arguments: argparse.Namespace) -> None:
    """Measure one table."""
    if arguments.encoders:
        evaluate_encoders(arguments.table, Path())
    else:
        evaluate_table(arguments.table, Path(), only=arguments.cell)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", help="a name among params.yaml's tables")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--encoders", action="store_true", help="measure pretrained encoders")
    group.add_argument(
        "--cell", action="append", default=[], help="measure this cell alone; may be repeated"
    )
    run_stage(main, parser)
