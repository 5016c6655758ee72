"""`reglue fetch`: copy trained cells from DVC's remote.

Copy the cells of a table, and the data they were trained on, from the DVC remote into the project.
Each file is compared with the digest that dvc.lock records. Exit code 1 if something is still to
be built.

Examples:
    reglue fetch wikiqa
    reglue fetch conll2003 wlstm_crf_100d
"""

import argparse
from pathlib import Path

from nlp_core.cli.output import print_json
from nlp_core.config.base import check_known
from nlp_core.config.params import read_params
from nlp_core.errors import ConfigError
from nlp_core.report.cell import name_stage
from nlp_core.report.forecast import select_needed

GROUP = "reproduce tables"
PLACE = 12
HAS_JSON = True
CACHED = ("data/", "artifacts/")
"""Outputs that DVC's cache has; the others are in Git."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", metavar="TABLE", help="a table of grid/")
    parser.add_argument(
        "cells",
        metavar="CELL",
        nargs="*",
        default=[],
        help="its cells (default: all that its report needs)",
    )


def run(options: argparse.Namespace) -> None:
    from nlp_core import dag  # seconds of DVC

    names = select_stages(options.table, options.cells)
    shared = dag.fetch(Path(), names)
    stale = {name: why for name, why in dag.find_stale(Path()).items() if name in names}
    why = dict.fromkeys(shared.missing, "not in the remote")
    why |= dict.fromkeys(shared.damaged, "damaged in the remote, so not copied")
    why |= dict.fromkeys(shared.kept, "changed here and not recorded, so kept; delete it to fetch")
    remaining = {name: why.get(name) or "; ".join(reasons) for name, reasons in stale.items()}
    if options.json:
        print_json({"files": shared.num_files, "stages": len(names), "to_build": remaining})
    else:
        print(f"{options.table}: {shared.num_files} files copied for {len(names)} stages.")
        for name, reason in remaining.items():
            print(f"To be built here: {name} ({reason})")
    if remaining:
        raise SystemExit(1)


def select_stages(table: str, cells: list[str]) -> list[str]:
    """Return the stages that make some cells of a table, or all that its report needs.

    Raises:
        ConfigError: there is no such table or cell.
    """
    from nlp_core import dag  # seconds of DVC

    params = read_params(Path("params.yaml"))
    found = params.list_cells(table)
    for cell in cells:
        check_known(f"grid/{table}.yaml", "cell", cell, found, ConfigError)
    stages = dag.load_stages(Path())
    targets = [name_stage(cell, found[cell]) for cell in cells] or [f"report@{table}"]
    needed = {stage.name for target in targets for stage in select_needed(stages, target)}
    return [
        stage.name
        for stage in stages
        if stage.name in needed and all(path.startswith(CACHED) for path in stage.outputs)
    ]
