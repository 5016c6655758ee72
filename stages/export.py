"""Write the bundles of a trained cell: `python -m stages.export NAME`.

Reads the cell's folder; writes artifacts/cells/TABLE/NAME/ with a bundle for each variant.
"""

import argparse
from pathlib import Path

from nlp_core.config.params import GRID, read_params
from nlp_core.errors import ConfigError, suggest
from nlp_core.export.bundle import export_cell
from stages._cli import run_stage


def build_parser() -> argparse.ArgumentParser:
    """Return the stage's command line."""
    parser = argparse.ArgumentParser(prog="stages.export", description=__doc__)
    parser.add_argument("name", help="a key of exports in grid/")
    return parser


def main(arguments: argparse.Namespace) -> None:
    """Export the cell."""
    exports = read_params(Path("params.yaml")).exports
    if arguments.name not in exports:
        hint = suggest(arguments.name, exports)
        raise ConfigError(f"{GRID}/: exports: there is no '{arguments.name}'. {hint}")
    export_cell(arguments.name, exports[arguments.name])


if __name__ == "__main__":
    run_stage(main, build_parser())
