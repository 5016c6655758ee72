"""`reglue site`: the results as pages of HTML."""

import argparse
from pathlib import Path

from nlp_core.cli.program import Command

FOLDER = Path("reports") / "html"
COMMAND = Command(
    group="reproduce tables",
    place=9,
    summary="write the results as HTML pages",
    description="Write the results as HTML pages: an overview, a page for each table and one "
    "for each cell. Nothing is trained, and the pages load nothing from the network.",
    examples=("reglue site", "reglue site --out public"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        "--out",
        type=Path,
        default=FOLDER,
        metavar="FOLDER",
        help=f"where to write; replaces a former site there (default: {FOLDER})",
    )


def run(options: argparse.Namespace) -> None:
    from nlp_core.site.build import write_site  # scipy and torch: seconds

    write_site(Path(), options.out)
    print(options.out / "index.html")
