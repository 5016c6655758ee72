"""Let a trained cell label a task for students: `python -m stages.teach TASK`.

Reads the teacher's folder and the task's in data/processed/; writes data/processed/TASK/.
"""

import argparse
from pathlib import Path

from nlp_core.config.params import read_params
from nlp_core.training.teaching import read_teacher, teach
from stages._cli import run_stage


def main(arguments: argparse.Namespace) -> None:
    teach(read_teacher(arguments.task, read_params(Path("params.yaml"))))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="stages.teach", description=__doc__)
    parser.add_argument("task", help="a key of taught in params.yaml")
    run_stage(main, parser)
