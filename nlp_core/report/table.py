"""Write the report of a table: reports/<table>.md and .svg, from its results."""

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from nlp_core.config.params import read_params
from nlp_core.config.published import read_published
from nlp_core.files import replacing, write_text
from nlp_core.report.comparison import Comparison, compare
from nlp_core.report.figure import draw_figure
from nlp_core.report.markdown import (
    render_commands,
    render_making,
    render_report,
    summarise_outcomes,
)
from nlp_core.report.results import Results, read_results
from nlp_core.report.significance import find_differences, render_differences

log = logging.getLogger(__name__)


class Picture(NamedTuple):
    """A figure of a report.

    Attributes:
        name: of its file, without the ending.
        text: what it shows.
        svg: its content.
    """

    name: str
    text: str
    svg: bytes


def list_tables(root: Path) -> list[str]:
    """Return the tables that have published numbers, sorted.

    Args:
        root: the project's root.
    """
    return sorted(path.stem for path in (root / "reports" / "published").glob("*.yaml"))


def is_measured(table: str, root: Path) -> bool:
    """Say whether there are results of a table.

    Args:
        table: its name.
        root: the project's root.
    """
    return _find_results(table, root).exists()


def read_comparison(table: str, root: Path, *, allow_missing: bool = False) -> Comparison:
    """Read the published and the measured numbers of a table and compare them.

    Args:
        table: its name.
        root: the project's root.
        allow_missing: whether a table without results has nothing measured, or is an error.

    Raises:
        ConfigError: reports/published/<table>.yaml is missing or wrong.
        DataError: results/<table>.json is missing or is no results file.
    """
    published = read_published(root / "reports" / "published" / f"{table}.yaml")
    if allow_missing and not is_measured(table, root):
        return compare(published, Results(table=table, cells={}))
    return compare(published, read_results(_find_results(table, root)))


def write_report(table: str, root: Path) -> None:
    """Write the markdown and the figure of a table.

    Args:
        table: its name.
        root: the project's root.

    Raises:
        ConfigError: a file that a person writes is missing or wrong.
        DataError: results/<table>.json is missing or is no results file.
    """
    comparison = read_comparison(table, root)
    cells = comparison.results.cells
    sections = [
        render_differences(find_differences(comparison, root)),
        *render_making(cells, read_params(root / "params.yaml").recipes),
        render_commands(table, cells),
    ]
    picture = Picture(table, "Published and measured numbers", draw_figure(comparison))
    write_files(comparison, [picture], sections, root)


def write_files(
    comparison: Comparison, pictures: Sequence[Picture], sections: Iterable[str], root: Path
) -> None:
    """Write reports/<table>.md and its figures.

    Args:
        comparison: the table with our numbers in it.
        pictures: in the order in which the report shows them.
        sections: what the report says between the parts of the table and its sources.
        root: the project's root.
    """
    table, folder = comparison.results.table, root / "reports"
    for picture in pictures:
        with replacing(folder / f"{picture.name}.svg") as temporary:
            temporary.write_bytes(picture.svg)
    shown = {picture.name: picture.text for picture in pictures}
    write_text(folder / f"{table}.md", render_report(comparison, shown, sections))
    log.info("report table=%s %s", table, summarise_outcomes(comparison.entries))


def _find_results(table: str, root: Path) -> Path:
    return root / "results" / f"{table}.json"
