"""Bring the tasks of a group together: `python -m stages.gather GROUP`.

Reads data/processed/TASK/ of each task that params.yaml names in the group; writes
data/processed/GROUP/.
"""

import argparse
from pathlib import Path

from nlp_core.config.params import read_params
from nlp_core.data.preprocess import gather_tasks
from nlp_core.errors import ConfigError, suggest
from stages._cli import run_stage


def build_parser() -> argparse.ArgumentParser:
    """Return the stage's command line."""
    parser = argparse.ArgumentParser(prog="python -m stages.gather", description=__doc__)
    parser.add_argument("group", help="a key of groups in params.yaml")
    return parser


def main(arguments: argparse.Namespace) -> None:
    """Gather the tasks."""
    groups = read_params(Path("params.yaml")).groups
    if arguments.group not in groups:
        hint = suggest(arguments.group, groups)
        raise ConfigError(f"params.yaml: groups: there is no group '{arguments.group}'. {hint}")
    gather_tasks(arguments.group, groups[arguments.group])


if __name__ == "__main__":
    run_stage(main, build_parser())
