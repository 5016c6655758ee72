"""Import all finished runs into MLflow: `python -m stages.track`. See docs/tracking.md.

No stage waits for it and none reads what it writes; running it twice changes nothing.
"""

import argparse
from pathlib import Path

from nlp_core.tracking.store import import_runs
from stages._cli import run_stage


def main(arguments: argparse.Namespace) -> None:
    import_runs(Path(), arguments.database)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="stages.track", description=__doc__)
    parser.add_argument("--database", type=Path, default=Path("mlflow.db"), help="SQLite file")
    run_stage(main, parser)
