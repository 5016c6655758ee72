"""A model and its recipe whose values a search changes."""

import copy
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from nlp_core.config.base import parse_config, read_mapping
from nlp_core.config.model import format_model, parse_model, put_value, read_value
from nlp_core.config.params import Params
from nlp_core.config.recipe import RecipeConfig
from nlp_core.config.space import SpaceConfig
from nlp_core.errors import ConfigError
from nlp_core.files import digest_json, write_json
from nlp_core.metrics import HONEST
from nlp_core.models.plan import plan_model
from nlp_core.prediction.split_prediction import score_predictions
from nlp_core.training.cell import Cell, read_cell
from nlp_core.training.run import FinishedSeed, Run
from nlp_core.training.user_run import METRICS

log = logging.getLogger(__name__)

TRAINING, WINNER = "training", "winner"
Document = dict[str, Any]  # Any: JSON holds anything
Build = Callable[[Document], Run]


@dataclass(frozen=True)
class Searched:
    """A model file with its recipe, and what trains it.

    Attributes:
        where: its name, for error messages.
        document: the content of a model file whose `training` is the recipe.
        digest: of all that a score depends on besides the values.
        seed: of weights and data order.
        build: returns the run of a document.
        build_measured: returns the run that measures the reported split too.
        list_files: returns by name the texts of the files that hold a document.
    """

    where: str
    document: Document
    digest: str
    seed: int
    build: Build
    build_measured: Callable[[Document, Path], Run]
    list_files: Callable[[Document], dict[str, str]]

    def change(self, values: Mapping[str, Any], source: str | None = None) -> Document:
        """Return the document with other values; `source` says where they come from."""
        document = copy.deepcopy(self.document)
        for path, value in values.items():
            put_value(document, path, value, self.where)
        if source is not None:
            document[TRAINING] = {**(document.get(TRAINING) or {}), "source": source}
        return document

    def find_defaults(self, space: SpaceConfig) -> Document | None:
        """Return the document's own values; None if one is unknown or outside the space."""
        recipe = self.build(self.document).recipe
        whole = {**self.document, TRAINING: recipe.model_dump(mode="json")}
        found = {path: read_value(whole, path, self.where) for path in space.values}
        outside = [path for path, value in found.items() if not space.values[path].holds(value)]
        if outside:
            log.info(
                "search default=none: %s: the model's own value is outside the space", outside[0]
            )
            return None
        return found

    def check_space(self, space: SpaceConfig, where: str) -> None:
        """Build a run for each choice and each end of a range.

        Raises:
            ConfigError: a path names no key, or a value does not fit the model.
        """
        for path, dimension in space.values.items():
            if path.partition(".")[0] not in (TRAINING, "layers", "heads"):
                raise ConfigError(
                    f"{where}: values.{path}: found a key of another section, expected one of "
                    "layers, heads or training, such as training.optimizer.lr."
                )
            for value in dimension.ends:
                try:
                    self.build(self.change({path: value}))
                except ConfigError as err:
                    raise ConfigError(f"{where}: values.{path}: at {value!r}: {err}") from err


@dataclass(frozen=True, kw_only=True)
class MeasuredCell(Cell):
    """A cell that writes its metrics, as the run of a user's file does."""

    def write_results(self, folder: Path, finished: FinishedSeed) -> None:
        super().write_results(folder, finished)
        found = finished.predictions[self.task.name][HONEST]
        metrics = {item.split.name: score_predictions(self.task, item) for item in found}
        epoch = finished.progress.best[HONEST].epoch
        write_json(folder / METRICS, {"best_epoch": epoch, "metrics": metrics})


def search_cell(name: str, params: Params, seed: int) -> Searched:
    """Return a cell as something to search.

    Raises:
        ConfigError: it has several tasks, or its epoch is chosen on the reported split.
    """
    cell = read_cell(name, params)
    model = read_mapping(Path(cell.experiment.model))
    where = f"{cell.experiment.table}/{cell.name}"
    if len(cell.tasks) > 1:
        raise ConfigError(f"{where}: found {len(cell.tasks)} tasks, expected a cell of one task.")
    if cell.task.select_split in cell.task.report_splits:
        raise ConfigError(
            f"{where}: found the reported split {cell.task.select_split} choosing the epoch, "
            "expected another one to search on; set dev or held_out of its task in sources/."
        )
    document = {**model, TRAINING: cell.recipe.model_dump(mode="json", exclude_none=True)}

    def build(document: Document) -> Run:
        recipe = parse_config(document[TRAINING], RecipeConfig, where=f"{where}: training")
        plan = plan_model(parse_model(_drop_recipe(document), where), where=where)
        return MeasuredCell(**{**vars(cell), "plan": plan, "recipe": recipe})

    def list_files(document: Document) -> dict[str, str]:
        recipe = {"recipes": {f"{cell.name}_searched": document[TRAINING]}}
        text = yaml.safe_dump(recipe, sort_keys=False, width=100)
        return {f"{WINNER}.json": format_model(_drop_recipe(document)), f"{WINNER}.yaml": text}

    return Searched(
        *(where, document, digest_json([cell.key, cell.name_seed(seed)]), seed),
        build=build,
        build_measured=lambda document, output: build(document),
        list_files=list_files,
    )


def _drop_recipe(document: Document) -> Document:
    return {key: value for key, value in document.items() if key != TRAINING}


def read_metrics(folder: Path) -> dict[str, dict[str, float]]:
    """Return the metrics of a trained winner, by split."""
    metrics: dict[str, dict[str, float]] = read_mapping(folder / METRICS)["metrics"]
    return metrics
