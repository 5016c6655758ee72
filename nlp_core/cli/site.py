"""`reglue site`: the results as pages of HTML."""

import argparse
from pathlib import Path

from nlp_core.cli import Subparsers, add_command

FOLDER = Path("reports") / "html"


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "site",
        description="Write the results as HTML pages: an overview, a page for each table and one "
        "for each cell. Nothing is trained, and the pages load nothing from the network.",
    )
    parser.add_argument(
        "-o",
        "--out",
        type=Path,
        default=FOLDER,
        metavar="FOLDER",
        help=f"where to write; replaces a former site there (default: {FOLDER})",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    from nlp_core.site.build import write_site  # scipy and torch: seconds

    write_site(Path(), options.out)
    print(options.out / "index.html")
