"""Train a student of the grid over its seeds: `python -m stages.distill CELL`.

Reads what stages.finetune reads, and artifacts/soft_labels/SET/, no teacher unless the recipe
matches its layers; writes artifacts/distill/TABLE/CELL/.
"""

import argparse
from pathlib import Path

from nlp_core.config.params import GRID, read_params
from nlp_core.errors import ConfigError, suggest
from nlp_core.training.cell import read_cell, train_cell
from stages._cli import run_stage


def build_parser() -> argparse.ArgumentParser:
    """Return the stage's command line."""
    parser = argparse.ArgumentParser(prog="stages.distill", description=__doc__)
    parser.add_argument("cell", help="a key of distillations in grid/")
    return parser


def main(arguments: argparse.Namespace) -> None:
    """Train the student."""
    params = read_params(Path("params.yaml"))
    if arguments.cell not in params.distillations:
        hint = suggest(arguments.cell, params.distillations)
        raise ConfigError(f"{GRID}/: distillations: there is no student '{arguments.cell}'. {hint}")
    train_cell(read_cell(arguments.cell, params))


if __name__ == "__main__":
    run_stage(main, build_parser())
