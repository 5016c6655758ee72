"""What a cell page says of how its cell was made: facts by section, and the model."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from nlp_core.config.model import ModelConfig, read_model
from nlp_core.config.params import ExportConfig
from nlp_core.config.pretraining import EncoderConfig
from nlp_core.errors import ConfigError
from nlp_core.models.description import Node, describe_plan
from nlp_core.models.plan import plan_model
from nlp_core.report.cell import name_stage
from nlp_core.report.explanation import Facts, explain
from nlp_core.report.making import flatten
from nlp_core.report.results import CellResult
from nlp_core.site.picture import draw_model
from nlp_core.site.project import CellPlace, Project


class ModelView(NamedTuple):
    config: ModelConfig
    nodes: list[Node]
    picture: Markup


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


def list_facts(place: CellPlace, result: CellResult | None, project: Project) -> dict[str, Facts]:
    """Return what is known of a cell, by section, as `reglue explain` shows it."""
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
