"""Write the site: every page is rendered before the first is written."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from nlp_core.files import check_replaceable, replacing_folder
from nlp_core.report.headline import FIGURE
from nlp_core.report.markdown import SELECTIONS, format_gain
from nlp_core.site.breakdown import is_number
from nlp_core.site.cell_page import build_cell
from nlp_core.site.project import Project, read_project
from nlp_core.site.table_page import build_table, read_figure

ASSETS = ("site.css", "site.js")


def write_site(root: Path, folder: Path) -> None:
    """Write the pages into a folder, in place of a former site.

    Raises:
        ConfigError: the folder holds something else, or a file that a person writes is wrong.
        DataError: a results file is damaged, or a report has no figure.
    """
    marker = f"assets/{ASSETS[0]}"
    check_replaceable(folder, marker=marker, name="site", option="--out", force=True)
    with collecting_later():
        pages = dict(render_pages(read_project(root)))
    assets = files("nlp_core.site") / "assets"
    pages |= {f"assets/{name}": (assets / name).read_text(encoding="utf-8") for name in ASSETS}
    with replacing_folder(folder) as temporary:
        for name, text in sorted(pages.items()):
            path = temporary / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")


@contextmanager
def collecting_later() -> Iterator[None]:
    """Pause the search for cycles, which would visit millions of short lists again and again."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def render_pages(project: Project) -> Iterator[tuple[str, str]]:
    """Yield path and text of each page."""
    environment = _build_environment()
    tables = [build_table(name, project) for name in project.tables]
    ranks = {tally.table: idx for idx, tally in enumerate(project.headline.tallies)}
    tables.sort(key=lambda page: ranks.get(page.name, len(ranks)))
    template = environment.get_template("overview.html")
    figure = read_figure(project.root / FIGURE, "Our numbers less the published ones, by table")
    yield "index.html", template.render(project=project, tables=tables, figure=figure, up="")
    template = environment.get_template("table.html")
    for page in tables:
        yield f"{page.name}.html", template.render(page=page, project=project, up="")
    template = environment.get_template("cell.html")
    titles = {page.name: page.comparison.published.title for page in tables}
    for place in project.places:
        cell = build_cell(place, project)
        yield place.path, template.render(page=cell, project=project, titles=titles, up="../")


def _build_environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("nlp_core.site"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "prose": _mark_code,
        "points": lambda value, decimals=2: f"{value:,.{decimals}f}",
        "signed": lambda value: f"{value:+.2f}",
        "gain": format_gain,
        "is_number": is_number,
    }
    environment.globals |= {"selections": SELECTIONS, "marks": MARKS}
    return environment


MARKS = {
    "above": "▲",
    "reproduced": "●",
    "trend": "●",
    "below": "▼",
    "no trend": "▼",
    "no verdict": "-",
    "open": "○",
    "reference": "-",
    "ours": "-",
}
"""A sign before each verdict, so that colour is not its only mark."""


def _mark_code(text: str) -> Markup:
    """Return a text of the project's files, its backticks as code."""
    parts = " ".join(text.split()).split("`")
    marked = [
        Markup("<code>{}</code>").format(part) if idx % 2 else escape(part)
        for idx, part in enumerate(parts)
    ]
    return Markup("").join(marked)
