"""Render the pages of the site from their templates."""

from collections.abc import Iterator

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from nlp_core.report.headline import FIGURE
from nlp_core.report.markdown import SELECTIONS, format_gain
from nlp_core.site.breakdown import is_number
from nlp_core.site.cell_page import build_cell
from nlp_core.site.project import Project
from nlp_core.site.table_page import build_table, read_figure


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
