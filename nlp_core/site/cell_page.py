"""What the page of a cell shows: scores, spread over seeds, errors, model, and how to get them."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from nlp_core.config.model import ModelConfig, read_model
from nlp_core.metrics import is_lower_better
from nlp_core.models.description import Node, describe_plan
from nlp_core.models.plan import plan_model
from nlp_core.report.explanation import Facts, explain
from nlp_core.report.results import CellResult, Score
from nlp_core.site.picture import Points, draw_lines, draw_model, draw_strip
from nlp_core.site.project import CellPlace, Project, ShownNumber
from nlp_core.site.review import ErrorSection


class MetricRow(NamedTuple):
    """A metric of a cell; the strip is a picture of its spread, empty for one value."""

    name: str
    score: Score
    is_reported: bool
    is_lower_better: bool
    strip: Markup


class ModelView(NamedTuple):
    config: ModelConfig
    nodes: list[Node]
    picture: Markup


class CellPage(NamedTuple):
    """The page of a cell.

    Attributes:
        result: None if it is not measured.
        numbers: those of tables that it is compared in.
        runs: what its values are over: names of seeds, or runs.
        curves: held-out perplexity of an encoder by text, or the metric that chooses a trained
            cell's epoch by seed.
        model: None for what is not a model file, such as a released encoder.
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
    curve_title: str
    curve: Markup
    model: ModelView | None
    facts: dict[str, Facts]


def build_cell(place: CellPlace, project: Project) -> CellPage:
    """Return the page of a cell."""
    numbers = [number for number in project.numbers if number.place == place]
    result = project.find_result(place)
    metrics = list(_list_metrics(result, numbers)) if result else []
    size = max((row.score.n for row in metrics), default=0)
    seeds = [f"seed {seed}" for seed in result.seeds] if result else []
    curves = project.tables[place.table].results.curves.get(place.cell, {})
    is_encoder = place.cell in project.params.encoders
    title = "Held-out perplexity, first seed" if is_encoder else "Learning curves"
    facts = _list_facts(place, project)
    return CellPage(
        place,
        result,
        project.is_older(place),
        numbers,
        metrics,
        seeds if len(seeds) == size else [f"run {idx + 1}" for idx in range(size)],
        project.reviews[place.table].errors.get(place.cell, []),
        curves,
        title,
        draw_lines(curves, f"{title} over the steps", is_log=is_encoder) if curves else Markup(""),
        _view_model(project.root / facts["model"]["file"], facts["model"]["file"]),
        facts,
    )


def _list_metrics(result: CellResult, numbers: Sequence[ShownNumber]) -> Iterator[MetricRow]:
    published = {number.entry.metric: number.entry.number.value for number in numbers}
    reported = result.reported
    rows = [
        MetricRow(
            name,
            score,
            name in published or name in reported,
            is_lower_better(name),
            draw_strip(score.values, published.get(name)) if score.n > 1 else Markup(""),
        )
        for name, score in result.metrics.items()
    ]
    yield from sorted(rows, key=lambda row: not row.is_reported)


@cache
def _view_model(path: Path, name: str) -> ModelView | None:
    """Return what a model file describes; None for a released encoder, or different models."""
    if " + " in name or path.suffix != ".json" or not name.startswith("zoo/"):
        return None
    config = read_model(path)
    nodes = describe_plan(plan_model(config, where=name))
    return ModelView(config, nodes, draw_model(nodes))


def _list_facts(place: CellPlace, project: Project) -> dict[str, Facts]:
    """Return what is known of a cell, by section, as `reglue explain` shows it."""
    comparison = project.tables[place.table]
    # a committed page cannot name the commit that it is part of
    facts = explain(comparison, place.cell, project.params, project.root, has_commit=False)
    shown = ("scores", "curves")  # the page has a table and a picture of them
    return {name: section for name, section in facts.items() if name not in shown}
