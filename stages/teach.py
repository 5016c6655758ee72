"""Let a teacher of params.yaml score its texts: `python -m stages.teach TEACHER`.

Reads the teacher's trained cell and data/processed/DATA/; writes
artifacts/soft_labels/SET/TEACHER/.
"""

import argparse
from pathlib import Path

from nlp_core.config.params import read_params
from nlp_core.training.teaching import read_teacher, teach
from stages._cli import run_stage


def build_parser() -> argparse.ArgumentParser:
    """Return the stage's command line."""
    parser = argparse.ArgumentParser(prog="stages.teach", description=__doc__)
    parser.add_argument("teacher", help="a key of teachers in params.yaml")
    return parser


def main(arguments: argparse.Namespace) -> None:
    """Write the soft labels."""
    params = read_params(Path("params.yaml"))
    teach(read_teacher(arguments.teacher, params))


if __name__ == "__main__":
    run_stage(main, build_parser())
