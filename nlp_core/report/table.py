"""Write the report of a table: reports/<table>.md and .svg, from its results."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from nlp_core.config.base import name_folder
from nlp_core.config.params import ExportConfig, Params, read_params
from nlp_core.files import replacing, write_text
from nlp_core.report.cell import name_stage
from nlp_core.report.comparison import Comparison
from nlp_core.report.cost import measure_costs, read_costs, render_cost
from nlp_core.report.data_audit import render_audits
from nlp_core.report.figure import draw_figure
from nlp_core.report.latency import draw_times, render_times
from nlp_core.report.making import render_commands, render_data, render_machines, render_making
from nlp_core.report.markdown import render_report, summarise_outcomes
from nlp_core.report.measured_table import read_comparison
from nlp_core.report.pretraining import draw_encoders, render_encoders
from nlp_core.report.significance import find_differences, render_differences

log = logging.getLogger(__name__)


class Section(NamedTuple):
    """What a report shows of one sort of cells.

    Attributes:
        text: what the figure shows, which is that of the first sort.
    """

    making: list[str]
    text: str
    svg: bytes


def write_report(table: str, root: Path) -> None:
    """Write the markdown and the figure of a table, in sections by the sort of its cells.

    Raises:
        ConfigError: a file that a person writes is missing or wrong.
        DataError: results/<table>.json is missing or is no results file.
    """
    comparison = read_comparison(table, root)
    params = read_params(root / "params.yaml")
    cells = comparison.results.cells
    parts = list(_list_sections(comparison, params))
    made = [text for part in parts for text in part.making]
    if cells:
        made = ["## How our numbers were made", *made, render_data(cells), render_machines(cells)]
        costs = measure_costs(comparison.results, params, read_costs(table, root))
        made.append(render_cost(costs))
    timed = any(cell.is_timed for cell in cells.values())
    stages = {
        name: (name_stage(name, item), name_folder(item.table, name))
        for name, item in params.list_cells(table).items()
        if name in cells or (timed and isinstance(item, ExportConfig))
    }
    differences = render_differences(find_differences(comparison, root))
    audits = render_audits(cells, params, root)
    sections = [differences, *audits, *made, render_commands(table, stages, is_timed=timed)]
    folder, first = root / "reports", parts[0]
    with replacing(folder / f"{table}.svg") as temporary:
        temporary.write_bytes(first.svg)
    write_text(folder / f"{table}.md", render_report(comparison, {table: first.text}, sections))
    log.info("report table=%s %s", table, summarise_outcomes(comparison.entries))


def _list_sections(comparison: Comparison, params: Params) -> Iterator[Section]:
    cells, curves = comparison.results.cells, comparison.results.curves
    timed = {name: cell for name, cell in cells.items() if cell.is_timed}
    pretrained = {name: cells[name] for name in curves}
    trained = {name: cell for name, cell in cells.items() if name not in {*timed, *pretrained}}
    if trained or not cells:
        making = render_making(trained, params.recipes) if trained else []
        yield Section(making, "Published and measured numbers", draw_figure(comparison))
    if pretrained:
        making = render_encoders(pretrained, params.encoders)
        svg = draw_encoders(curves, params.encoders)
        yield Section(making, "Held-out perplexity over the steps", svg)
    if timed:
        making = render_times(timed, params.timing[comparison.results.table])
        yield Section(making, "Milliseconds and sentences a second", draw_times(timed))
