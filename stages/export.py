"""Write the bundles of a trained cell: `python -m stages.export NAME`.

Reads the cell's folder; writes artifacts/export/NAME/ with a bundle for each variant.
"""

import argparse
from pathlib import Path

from nlp_core.config.params import read_params
from nlp_core.errors import ConfigError, suggest
from nlp_core.export.bundle import export_all
from stages._cli import run_stage


def build_parser() -> argparse.ArgumentParser:
    """Return the stage's command line."""
    parser = argparse.ArgumentParser(prog="stages.export", description=__doc__)
    parser.add_argument("name", help="a key of exports in params.yaml")
    return parser


def main(arguments: argparse.Namespace) -> None:
    """Export the cell."""
    exports = read_params(Path("params.yaml")).exports
    if arguments.name not in exports:
        hint = suggest(arguments.name, exports)
        raise ConfigError(f"params.yaml: exports: there is no '{arguments.name}'. {hint}")
    export_all(exports[arguments.name], Path("artifacts/export") / arguments.name)


if __name__ == "__main__":
    run_stage(main, build_parser())
