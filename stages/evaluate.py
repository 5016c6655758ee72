"""Measure the trained cells of a table: `python -m stages.evaluate <table>`.

Reads artifacts/finetune/<table>/, writes results/<table>.json.
"""

import argparse
from pathlib import Path

from nlp_core.report.evaluation import evaluate_table
from stages._cli import run_stage


def main(arguments: argparse.Namespace) -> None:
    """Measure one table."""
    evaluate_table(arguments.table, Path())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", help="a name among params.yaml's tables")
    run_stage(main, parser)
