"""Copy a member into the folder of its group: `python -m stages.gather MEMBER GROUP`.

Reads a processed task in data/processed/ or a trained cell in artifacts/cells/; writes GROUP/NAME/.
"""

import argparse
from pathlib import Path

from nlp_core.data.gathering import gather_member
from stages._cli import run_stage


def main(arguments: argparse.Namespace) -> None:
    gather_member(arguments.member, arguments.group)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m stages.gather", description=__doc__)
    parser.add_argument(
        "member", type=Path, help="the folder of a processed task or a trained cell"
    )
    parser.add_argument("group", type=Path, help="a folder in data/processed/ or artifacts/groups/")
    run_stage(main, parser)
