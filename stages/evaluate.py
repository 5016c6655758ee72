"""Measure the trained cells of a table: `python -m stages.evaluate <table>`.

Reads artifacts/finetune/<table>/, writes results/<table>.json. For a table of pretrained encoders,
`python -m stages.evaluate --encoders <table>`, it reads artifacts/pretrain/.
"""

import argparse
from pathlib import Path

from nlp_core.report.evaluation import evaluate_table
from nlp_core.report.pretraining import evaluate_encoders
from stages._cli import run_stage


def main(arguments: argparse.Namespace) -> None:
    """Measure one table."""
    evaluate = evaluate_encoders if arguments.encoders else evaluate_table
    evaluate(arguments.table, Path())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", help="a name among params.yaml's tables")
    parser.add_argument("--encoders", action="store_true", help="measure pretrained encoders")
    run_stage(main, parser)
