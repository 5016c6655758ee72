"""What the page of a cell shows: scores, spread over seeds, errors, model, and how to get them."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from nlp_core.kinds import KINDS
from nlp_core.metrics import is_lower_better
from nlp_core.report.examples import Runs, find_examples
from nlp_core.report.explanation import Facts
from nlp_core.report.results import CellResult, Score
from nlp_core.site.breakdown import (
    Breakdown,
    break_down_labels,
    break_down_numbers,
    name_runs,
    read_honest_runs,
)
from nlp_core.site.facts import ModelView, list_facts, view_model
from nlp_core.site.plot import Points, draw_lines, draw_strip
from nlp_core.site.project import CellPlace, Project, ShownNumber
from nlp_core.site.ranking_breakdown import break_down_ranking
from nlp_core.site.tag_breakdown import break_down_tags

PAIR = 2  # of values: fewer have no spread


class MetricRow(NamedTuple):
    """A metric of a cell with its value for each seed.

    Attributes:
        is_reported: whether it is of the split that the table reports.
        strip: a picture of the spread; empty for one value.
    """

    name: str
    score: Score
    is_reported: bool
    is_lower_better: bool
    strip: Markup


class ErrorSection(NamedTuple):
    """Where a cell is wrong in one task.

    Attributes:
        title: empty if the cell has one task.
    """

    title: str
    tables: list[Breakdown]


class CellPage(NamedTuple):
    """The page of a cell.

    Attributes:
        result: None if it is not measured.
        numbers: those of tables that it is compared in.
        runs: what its values are over: names of seeds, or runs.
        curves: held-out perplexity of an encoder's pretraining, by text; usually empty.
        curve: its picture.
        model: None for what is no model file, such as a released encoder.
        facts: as `reglue explain` shows them.
    """

    place: CellPlace
    result: CellResult | None
    is_older: bool
    numbers: list[ShownNumber]
    metrics: list[MetricRow]
    runs: list[str]
    errors: list[ErrorSection]
    curves: Mapping[str, Points]
    curve: Markup
    model: ModelView | None
    facts: dict[str, Facts]


def build_cell(place: CellPlace, project: Project) -> CellPage:
    """Return the page of a cell.

    Args:
        place: the cell.
        project: all tables.

    Raises:
        ConfigError: a file that describes the cell is wrong.
        DataError: its predictions are damaged.
    """
    numbers = [number for number in project.numbers if number.place == place]
    result = project.find_result(place)
    metrics = list(_list_metrics(result, numbers)) if result else []
    size = max((row.score.n for row in metrics), default=0)
    seeds = [f"seed {seed}" for seed in result.seeds] if result else []
    curves = project.tables[place.table].results.curves.get(place.cell, {})
    facts = list_facts(place, result, project)
    return CellPage(
        place,
        result,
        project.is_older(place),
        numbers,
        metrics,
        seeds if len(seeds) == size else [f"run {idx + 1}" for idx in range(size)],
        list_errors(find_examples(place.table, place.cell, project.root)),
        curves,
        draw_lines(curves, "Held-out perplexity over the steps") if curves else Markup(""),
        view_model(project.root / facts["model"]["file"], facts["model"]["file"]),
        facts,
    )


def list_errors(path: Path) -> list[ErrorSection]:
    """Return where a cell is wrong, task by task; nothing without committed predictions.

    Args:
        path: of the cell's predictions.
    """
    found = read_honest_runs(path)
    return [
        ErrorSection(
            name_runs(runs, is_only=len(found) == 1),
            [table for table in break_down(runs) if table.rows],
        )
        for runs in found
    ]


def break_down(runs: Runs) -> list[Breakdown]:
    """Return the tables that fit the kind of a task."""
    kind = KINDS.get(runs.task.kind)
    if kind.is_grouped:
        return break_down_ranking(runs)
    if kind.has_tags:
        return break_down_tags(runs)
    return break_down_numbers(runs) if kind.is_number else break_down_labels(runs)


def _list_metrics(result: CellResult, numbers: Sequence[ShownNumber]) -> Iterator[MetricRow]:
    published = {number.entry.metric: number.entry.number.value for number in numbers}
    splits = {task.report_split for task in result.tasks.values()}
    rows = [
        MetricRow(
            name,
            score,
            name in published or bool(splits & set(name.split("."))),
            is_lower_better(name),
            draw_strip(score.values, published.get(name)) if score.n >= PAIR else Markup(""),
        )
        for name, score in result.metrics.items()
    ]
    yield from sorted(rows, key=lambda row: not row.is_reported)
