"""Train a cell of the grid over its seeds: `python -m stages.finetune CELL`."""

import argparse
from pathlib import Path

from nlp_core.config.params import read_params
from nlp_core.training.cell import read_cell
from nlp_core.training.cell_run import train_cell
from nlp_core.training.control import add_control, read_control
from stages._cli import run_stage


def main(arguments: argparse.Namespace) -> None:
    control = read_control(arguments)
    train_cell(read_cell(arguments.cell, read_params(Path("params.yaml"))), control)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="stages.finetune", description=__doc__)
    parser.add_argument("cell", help="a key of experiments in grid/")
    add_control(parser)
    run_stage(main, parser)
