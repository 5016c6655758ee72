"""Write the bundles of a trained cell: `python -m stages.export NAME`.

Reads the cell's folder; writes artifacts/cells/TABLE/NAME/ with a bundle for each variant.
"""

import argparse
from pathlib import Path

from nlp_core.config.base import check_known
from nlp_core.config.params import GRID, read_params
from nlp_core.errors import ConfigError
from nlp_core.export.cell_export import export_cell
from stages._cli import run_stage


def main(arguments: argparse.Namespace) -> None:
    exports = read_params(Path("params.yaml")).exports
    check_known(f"{GRID}/: exports", "export", arguments.name, exports, ConfigError)
    export_cell(arguments.name, exports[arguments.name])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="stages.export", description=__doc__)
    parser.add_argument("name", help="a key of exports in grid/")
    run_stage(main, parser)
