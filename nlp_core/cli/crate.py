"""`reglue crate`: a table with its workflow, inputs and outputs as an RO-Crate."""

import argparse
from pathlib import Path

from nlp_core.cli.program import Command
from nlp_core.config.params import read_params
from nlp_core.errors import ConfigError, suggest
from nlp_core.files import check_replaceable

COMMAND = Command(
    group="reproduce tables",
    place=8,
    summary="write a table with its workflow and provenance as an RO-Crate",
    description="Write a measured table with its workflow, inputs, outputs, digests and costs "
    "as a Workflow Run RO-Crate, which catalogues and archives read.",
    examples=(
        "reglue crate sample -o crates/sample",
        "reglue crate wikiqa -o crates/wikiqa --agent 'Ada Example'",
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", metavar="TABLE", help="a measured table")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the folder to write")
    parser.add_argument(
        "--agent", metavar="NAME", help="who ran the workflow (default: CITATION.cff's authors)"
    )
    parser.add_argument("--force", action="store_true", help="replace the crate in the folder")


def run(options: argparse.Namespace) -> None:
    """Write the crate.

    Raises:
        ConfigError: there is no such table, the folder holds something, or a file is wrong.
        DataError: the table is not measured.
    """
    from nlp_core.report.crate import METADATA, write_crate  # scipy: a second

    root = Path()
    params = read_params(root / "params.yaml")
    if options.table not in params.tables:
        hint = suggest(options.table, params.tables)
        raise ConfigError(f"table '{options.table}': unknown. {hint}")
    check_replaceable(
        options.output, marker=METADATA, name="crate", option="-o", force=options.force
    )
    num_files = write_crate(options.table, params, root, options.output, agent=options.agent)
    print(f"{options.output}: {num_files} files and {METADATA}")
