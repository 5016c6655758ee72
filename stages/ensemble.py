"""Average what trained cells predict: `python -m stages.ensemble NAME`.

Reads the members' folders and data/processed/TASK/; writes artifacts/cells/TABLE/NAME/.
"""

import argparse
from pathlib import Path

from nlp_core.config.params import read_params
from nlp_core.training.ensemble import make_ensemble, read_ensemble
from stages._cli import run_stage


def main(arguments: argparse.Namespace) -> None:
    make_ensemble(read_ensemble(arguments.name, read_params(Path("params.yaml"))))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="stages.ensemble", description=__doc__)
    parser.add_argument("name", help="a key of ensembles in grid/")
    run_stage(main, parser)
