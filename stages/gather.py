"""Bring the tasks of a group together: `python -m stages.gather GROUP`.

Reads data/processed/TASK/ of each task that params.yaml names in the group; writes
data/processed/GROUP/.
"""

import argparse
from pathlib import Path

from nlp_core.config.base import check_known
from nlp_core.config.params import read_params
from nlp_core.data.preprocess import gather_tasks
from nlp_core.errors import ConfigError
from stages._cli import run_stage


def main(arguments: argparse.Namespace) -> None:
    groups = read_params(Path("params.yaml")).groups
    check_known("params.yaml: groups", "group", arguments.group, groups, ConfigError)
    gather_tasks(arguments.group, groups[arguments.group])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.gather", description=__doc__)
    parser.add_argument("group", help="a key of groups in params.yaml")
    run_stage(main, parser)
