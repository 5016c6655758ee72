"""Turn checked raw files into typed parquet files.

Command: python -m stages.preprocess NAME [NAME ...]

Reads sources/NAME.yaml and data/raw/NAME/; writes data/processed/NAME/.
"""

import argparse

from nlp_core.config.dataset import read_dataset
from nlp_core.data.preprocess import preprocess_source
from stages._cli import run_stage


def main(arguments: argparse.Namespace) -> None:
    """Preprocess each named source."""
    datasets = {name: read_dataset(name) for name in arguments.names}
    for name, dataset in datasets.items():
        preprocess_source(name, dataset)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the stage's arguments."""
    parser = argparse.ArgumentParser(prog="python -m stages.preprocess", description=__doc__)
    parser.add_argument("names", nargs="+", metavar="NAME", help="a file sources/NAME.yaml")
    return parser


if __name__ == "__main__":
    run_stage(main, build_parser())
