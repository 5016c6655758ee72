"""`reglue push`: copy trained cells to DVC's remote.

Copy the cells of a table, and the data they were trained on, to the DVC remote, where `reglue
fetch` finds them. Exit code 1 if something was never built here.

Examples:
    reglue push wikiqa
    reglue push conll2003 wlstm_crf_100d
"""

import argparse
from pathlib import Path

from nlp_core.cli import fetch
from nlp_core.cli.output import print_json

GROUP = "reproduce tables"
PLACE = 13
HAS_JSON = True
add_arguments = fetch.add_arguments


def run(options: argparse.Namespace) -> None:
    from nlp_core import dag  # seconds of DVC

    names = fetch.select_stages(options.table, options.cells)
    shared = dag.push(Path(), names)
    if options.json:
        print_json({"files": shared.num_files, "stages": len(names), "not_built": shared.missing})
    else:
        print(f"{options.table}: {shared.num_files} files copied to the remote.")
        for name in shared.missing:
            print(f"Not built here: {name}")
    if shared.missing:
        raise SystemExit(1)
