"""`reglue site`: the results as pages of HTML."""

import argparse
from pathlib import Path

from nlp_core.cli import Subparsers, add_command


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "site",
        description="Write reports/html/: an overview of the results, a page for each table and "
        "one for each cell. Nothing is trained, and the pages load nothing from the network.",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    from nlp_core.site.build import write_site  # scipy and torch: seconds

    print(write_site(Path()))
