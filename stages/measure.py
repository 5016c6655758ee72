"""Time the bundles of a table beside the models they were made of: `python -m stages.measure NAME`.

Reads artifacts/export/, writes results/NAME.json. Nothing else should run on the machine.
"""

import argparse
from pathlib import Path

from nlp_core.config.params import read_params
from nlp_core.errors import ConfigError, suggest
from nlp_core.export.latency import describe_hardware
from nlp_core.export.timing import read_parity, time_export
from nlp_core.report.latency import EXACT, MeasuredExport, write_latency_results
from stages._cli import run_stage


def main(arguments: argparse.Namespace) -> None:
    """Measure one table."""
    params = read_params(Path("params.yaml"))
    if arguments.table not in params.latency_tables:
        hint = suggest(arguments.table, params.latency_tables)
        raise ConfigError(f"params.yaml: latency_tables: there is no '{arguments.table}'. {hint}")
    config = params.latency_tables[arguments.table]
    measured = {}
    for name in config.exports:
        export, folder = params.exports[name], Path("artifacts/export") / name
        teacher = config.teachers.get(name)
        beside = None if teacher is None else Path("artifacts/export") / teacher / EXACT
        runs = time_export(export, folder, config, beside)
        bundles = {variant: folder / variant for variant in export.variants}
        measured[name] = MeasuredExport(
            runs,
            parities={variant: read_parity(bundle) for variant, bundle in bundles.items()},
            sizes={variant: _weigh(bundle) for variant, bundle in bundles.items()},
        )
    write_latency_results(arguments.table, measured, describe_hardware(config.threads), root=Path())


def _weigh(folder: Path) -> int:
    """Return the bytes of all files of a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="stages.measure", description=__doc__)
    parser.add_argument("table", help="a key of latency_tables in params.yaml")
    run_stage(main, parser)
