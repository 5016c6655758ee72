"""Render the pages of the site from their templates."""

from collections.abc import Iterator

from nlp_core.report.headline import FIGURE
from nlp_core.site.cell_page import build_cell
from nlp_core.site.environment import build_environment
from nlp_core.site.project import Project
from nlp_core.site.table_page import build_table, read_figure


def render_pages(project: Project) -> Iterator[tuple[str, str]]:
    """Yield path and text of each page."""
    environment = build_environment()
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
