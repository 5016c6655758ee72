"""The models under zoo/ with their scores: what zoo/README.md and `reglue zoo` show."""

from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from nlp_core.blocks.base import PIECES
from nlp_core.config.model import read_model
from nlp_core.config.params import Params, read_params
from nlp_core.models.description import count_layer
from nlp_core.models.plan import plan_model
from nlp_core.report.comparison import Comparison, read_comparison
from nlp_core.report.markdown import format_score, render_rows

INTRODUCTION = """\
# Model zoo

Each file is a network as a graph of blocks: take one as it is, or copy it and change it.
`reglue show FILE.json` checks a file and shows its layers with their shapes; `reglue blocks` and
`reglue heads` say what a file may be made of.

Weights are the parameters between the tables of words and characters, whose size the data decides,
and the heads, whose size the labels decide; a pretrained encoder has its own on top. A task is one
of `reglue data list`; a model without an experiment in grid/ names the tasks that its heads
are for, or the kinds of task that it serves. A result is the first number of a cell's report, the
epoch chosen on a split that it is not measured on.

`reglue zoo --readme` writes this page.
"""


class ZooModel(NamedTuple):
    """A model file and the results of the cells that train it.

    Attributes:
        tasks: the tasks that params.yaml trains it on, or those that its heads name, or the kinds
            that it serves.
        weights: parameters of its layers without vocabularies and a pretrained encoder.
        has_encoder: whether a pretrained encoder is among its layers.
    """

    path: str
    description: str
    source: str
    tasks: list[str]
    weights: int
    has_encoder: bool
    results: list["ZooResult"]


class ZooResult(NamedTuple):
    """The first number of a cell's report, `test.f1 91.05 +- 0.21 (3)`, or `not run`."""

    table: str
    cell: str
    number: str


def list_zoo(root: Path) -> list[ZooModel]:
    """Return every model file under zoo/, sorted by path."""
    params = read_params(root / "params.yaml")
    tables = {
        name: read_comparison(name, root, allow_missing=True)
        for name in sorted({cell.table for cell in params.experiments.values()})
    }
    paths = sorted((root / "zoo").rglob("*.json"))
    return [_describe(path, root, params, tables) for path in paths]


def render_zoo(models: list[ZooModel]) -> str:
    """Return zoo/README.md."""
    sections = [INTRODUCTION.strip()]
    header = ["file", "what it is", "source", "task", "weights", "result"]
    for folder, group in groupby(models, key=lambda model: model.path.rpartition("/")[0]):
        rows = [
            [
                f"[{model.path.rpartition('/')[2]}]({model.path})",
                model.description,
                model.source,
                ", ".join(model.tasks),
                f"{model.weights:,}{' + encoder' if model.has_encoder else ''}",
                "; ".join(
                    f"[{result.cell}](../reports/{result.table}.md): {result.number}"
                    for result in model.results
                )
                or "-",
            ]
            for model in group
        ]
        sections += [f"## {folder}", render_rows(header, rows)]
    return "\n\n".join(sections) + "\n"


def _describe(path: Path, root: Path, params: Params, tables: dict[str, Comparison]) -> ZooModel:
    name = path.relative_to(root).as_posix()
    config = read_model(path)
    plan = plan_model(config, where=name)
    found = {key: item for key, item in params.experiments.items() if item.model == name}
    tasks = {task for item in found.values() for task in params.list_tasks(item.data)}
    return ZooModel(
        name.removeprefix("zoo/"),
        config.description,
        config.source,
        sorted(tasks) or plan.tasks or [f"any {kind}" for kind in plan.kinds],
        sum(count_layer(layer) or 0 for layer in plan.layers),
        any(shape.rank == PIECES for layer in plan.layers for shape in layer.shapes),
        [
            ZooResult(item.table, cell, _find_number(cell, tables[item.table]))
            for cell, item in found.items()
        ],
    )


def _find_number(cell: str, comparison: Comparison) -> str:
    """Return the first number of a cell; the epoch chosen honestly, where there are two ways."""
    for entry in sorted(comparison.entries, key=lambda entry: entry.selection != "honest"):
        if entry.cell == cell and entry.ours is not None:
            return f"{entry.metric} {format_score(entry.ours)}"
    return "not run"
