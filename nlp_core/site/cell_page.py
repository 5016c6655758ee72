"""What the page of a cell shows: scores, spread over seeds, errors, model, and how to get them."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from nlp_core.config.export import ExportConfig
from nlp_core.config.model import ModelConfig, read_model
from nlp_core.config.pretraining import EncoderConfig
from nlp_core.errors import ConfigError
from nlp_core.kinds import KINDS
from nlp_core.metrics import is_lower_better
from nlp_core.models.description import Node, describe_plan
from nlp_core.models.plan import plan_model
from nlp_core.report.cell import name_stage
from nlp_core.report.examples import Runs, find_examples
from nlp_core.report.explanation import Facts, explain
from nlp_core.report.making import flatten
from nlp_core.report.results import CellResult, Score
from nlp_core.site.breakdown import (
    Breakdown,
    break_down_labels,
    break_down_numbers,
    name_runs,
    read_honest_runs,
)
from nlp_core.site.picture import draw_model
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
    facts = _list_facts(place, result, project)
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


@cache
def view_model(path: Path, name: str) -> ModelView | None:
    """Return what a model file describes; None for a released encoder, which is none.

    Args:
        path: the file.
        name: of the file in messages.
    """
    if path.suffix != ".json" or not name.startswith("zoo/"):
        return None
    config = read_model(path)
    nodes = describe_plan(plan_model(config, where=name))
    return ModelView(config, nodes, draw_model(nodes))


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


def _list_facts(place: CellPlace, result: CellResult | None, project: Project) -> dict[str, Facts]:
    if place.cell in project.params.experiments:
        comparison = project.tables[place.table]
        # a committed page cannot name the commit that it is part of
        facts = explain(comparison, place.cell, project.params, project.root, has_commit=False)
        del facts["scores"]  # the page has a table of them
        return facts
    encoder = project.params.encoders.get(place.cell)
    return {
        "data": _describe_data(result),
        "model": _describe_model(result, encoder),
        **({"recipe": _describe_encoder(encoder)} if encoder else {}),
        **({"training": _describe_machine(result)} if result else {}),
        "commands": _list_commands(place, project),
    }


def _describe_data(result: CellResult | None) -> Facts:
    if result is None:
        return {}
    digests = {task: digest.replace(":", " ")[:23] for task, digest in result.data.items()}
    return digests | {f"note {idx}": note for idx, note in enumerate(result.footnotes, 1)}


def _describe_model(result: CellResult | None, encoder: EncoderConfig | None) -> Facts:
    if result is None:
        assert encoder is not None
        return {"file": encoder.init}
    return {"file": result.model, "parameters": f"{result.parameters['total']:,}"}


def _describe_encoder(encoder: EncoderConfig) -> Facts:
    values = encoder.model_dump(mode="json", exclude_defaults=True, exclude={"source", "table"})
    source = {"values from": " ".join(encoder.source.split())}
    return source | {key: str(value) for key, value in flatten(values).items()}


def _describe_machine(result: CellResult) -> Facts:
    return {
        "seeds": ", ".join(map(str, result.seeds)),
        "fingerprint": ", ".join(
            f"{key} {fact}" for key, fact in sorted(result.fingerprint.items())
        ),
        "numerics": str(result.numerics),
    }


def _list_commands(place: CellPlace, project: Project) -> Facts:
    encoder = project.params.encoders.get(place.cell)
    if encoder is not None:
        make = f"dvc repro {name_stage(place.cell, encoder)}"
    else:
        make = f"dvc repro {_find_export(place, project)}"
    return {"make": make, "measure": f"dvc repro evaluate@{place.table} report@{place.table}"}


def _find_export(place: CellPlace, project: Project) -> str:
    """Return the stage that exports the bundle of a timed cell, named `<export>_<variant>`."""
    exports: Mapping[str, ExportConfig] = project.params.exports
    for name in sorted(exports, key=len, reverse=True):
        if place.cell.startswith(f"{name}_"):
            return name_stage(name, exports[name])
    raise ConfigError(
        f"results/{place.table}.json: the cell '{place.cell}' is not in grid/; measure the table "
        f"again with `dvc repro evaluate@{place.table}`."
    )
