"""`reglue site`: write the results as HTML pages.

Write the results as HTML pages: an overview, a page for each table and one for each cell. Nothing
is trained, and the pages load nothing from the network.

Examples:
    reglue site
    reglue site --out public
"""

import argparse
from pathlib import Path

FOLDER = Path("reports") / "html"
GROUP = "reproduce tables"
PLACE = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o",
        "--out",
        type=Path,
        default=FOLDER,
        metavar="FOLDER",
        help="where to write; replaces a former site there",
    )


def run(options: argparse.Namespace) -> None:
    from nlp_core.site.build import write_site  # scipy and torch: seconds

    write_site(Path(), options.out)
    print(options.out / "index.html")
