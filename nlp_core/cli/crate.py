"""`reglue crate`: write a table with its workflow and provenance as an RO-Crate.

Write a measured table with its workflow, inputs, outputs, digests and costs as a Workflow Run RO-
Crate, which catalogues and archives read.

Examples:
    reglue crate sample -o crates/sample
    reglue crate wikiqa -o crates/wikiqa --agent 'Ada Example'
"""

import argparse
from pathlib import Path

from nlp_core.config.params import read_params
from nlp_core.errors import UsageError
from nlp_core.files import check_replaceable

PLACES = ("crates", "artifacts")
"""Folders of the project that DVC does not search for stages."""
GROUP = "reproduce tables"
PLACE = 9


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", metavar="TABLE", help="a measured table")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the folder to write")
    parser.add_argument(
        "--agent", metavar="NAME", help="who ran the workflow (default: CITATION.cff's authors)"
    )
    parser.add_argument("--force", action="store_true", help="replace the crate in the folder")


def run(options: argparse.Namespace) -> None:
    from nlp_core.report.crate import METADATA, write_crate  # scipy: a second

    root = Path()
    params = read_params(root / "params.yaml")
    params.check_table(options.table)
    _check_place(options.output, root)
    check_replaceable(
        options.output, marker=METADATA, name="crate", option="-o", force=options.force
    )
    num_files = write_crate(options.table, params, root, options.output, agent=options.agent)
    print(f"{options.output}: {num_files} files and {METADATA}")


def _check_place(output: Path, root: Path) -> None:
    """Raise UsageError for a folder in which DVC would read the dvc.yaml of the crate."""
    inside, project = output.resolve(), root.resolve()
    if not (root / ".dvc").is_dir():
        return
    if project in inside.parents and inside.relative_to(project).parts[0] not in PLACES:
        raise UsageError(
            f"{output}: -o: found a folder in which DVC would take the crate for a part of this "
            f"project, expected one in {' or '.join(PLACES)}, or outside of the project."
        )
