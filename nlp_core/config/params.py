"""The closed models of params.yaml and grid/: the grid, and everything that changes a number."""

from collections.abc import Container, Iterator, Mapping
from itertools import chain
from pathlib import Path, PurePath
from typing import Annotated, Any

from pydantic import Field, model_validator

from nlp_core.config.base import (
    CELLS,
    PROCESSED,
    ClosedModel,
    Count,
    Distinct,
    Name,
    Seeds,
    Whole,
    check_cycle,
    check_known,
    name_folder,
    parse_config,
    read_mapping,
)
from nlp_core.config.ensemble import EnsembleConfig
from nlp_core.config.export import ExportConfig, TimingConfig
from nlp_core.config.group import GroupMemberConfig, check_groups
from nlp_core.config.pretraining import EncoderConfig
from nlp_core.config.recipe import MainRatioMixing, RecipeConfig
from nlp_core.config.teaching import TeachingConfig
from nlp_core.errors import ConfigError, suggest

GRID = "grid"
"""The folder next to params.yaml with a file for the cells of each table."""
STAGES = {"experiments": "finetune", "encoders": "pretrain"}
STAGES |= {"ensembles": "ensemble", "exports": "export"}
"""The stage that makes a cell, by the section of the grid that describes it."""
OPTIONAL = "optional"
"""The section of the grid with experiments that no stage makes; `reglue run` trains them."""
EAGER = "eager"
TEACHER = "teacher"
"""Names of the times of a model in torch, and of a student's teacher; no bundle is named so."""


class ExperimentConfig(ClosedModel):
    """A cell that is trained: a model on a task, by a recipe, over seeds."""

    table: Name
    model: Annotated[str, Field(pattern=r"^zoo/[a-z0-9_/]+\.json$")]
    data: Name
    """The task, a name under data/processed/, which may be a taught one; or a group of tasks."""
    init: Annotated[str, Field(pattern=rf"^(data/processed/|{CELLS}[a-z0-9_]+/)[a-z0-9_]+$")]
    """Folder of the vectors, the encoder or the trained cell (artifacts/cells/<table>/<cell>) that
    the model starts from."""
    init_seed: Whole | None = None
    """Seed of the trained cell that all seeds start from; null: each from its own."""
    keep_heads: bool = False
    """Whether heads of the same name and shapes as in the trained cell go on with its weights."""
    recipe: Name
    seeds: Seeds
    kept_splits: Annotated[list[Name], Distinct] = Field(default_factory=list)
    """Splits whose predictions are committed besides those of the reported ones: the report shows
    their scores, which have no interval otherwise."""


CellConfig = ExperimentConfig | EncoderConfig | EnsembleConfig | ExportConfig


class Params(ClosedModel):
    """The whole of params.yaml, with the cells of all files of grid/."""

    numerics: Count
    """Raised when a change of code moves a number; every trained cell depends on it."""
    tasks: Annotated[list[Name], Field(min_length=1)]
    """What the preprocess stage fetches and makes: names of files under sources/."""
    taught: dict[Name, TeachingConfig] = Field(default_factory=dict)
    """Tasks with soft labels, which the teach stage makes of others."""
    groups: dict[Name, GroupMemberConfig] = Field(default_factory=dict)
    """The members of all groups: tasks that are trained together, cells that are averaged."""
    tables: Annotated[list[Name], Field(min_length=1)]
    """The tables: the files of grid/. Each has published numbers under reports/published/."""
    metrics: dict[Name, list[str]] = Field(default_factory=dict)
    """By table the metrics of its cells in addition to those of their tasks."""
    timing: dict[Name, TimingConfig] = Field(default_factory=dict)
    """By table how its exports are timed."""
    recipes: dict[Name, RecipeConfig]
    experiments: dict[Name, ExperimentConfig]
    optional: list[Name] = Field(default_factory=list)
    """Experiments that the DAG leaves out, on any file of sources/."""
    encoders: dict[Name, EncoderConfig] = Field(default_factory=dict)
    """Cells that are pretrained."""
    ensembles: dict[Name, EnsembleConfig] = Field(default_factory=dict)
    """Cells that average what experiments predict."""
    exports: dict[Name, ExportConfig] = Field(default_factory=dict)
    """Cells that are bundles of experiments."""

    @model_validator(mode="after")
    def _check_data(self) -> "Params":
        check_cycle("taught.{}.data", {name: item.data for name, item in self.taught.items()})
        for name, item in self.taught.items():
            where = f"taught.{name}"
            check_known(f"{where}.data", "task", item.data, [*self.tasks, *self.taught])
            if name in self.tasks:
                raise ValueError(f"{where}: a task has this name; choose another one.")
        check_groups(self.groups, [*self.tasks, *self.taught], self.list_tasks)
        return self

    @model_validator(mode="after")
    def _check_cells(self) -> "Params":
        folders: dict[str, str] = {}
        for section, name, cell in self._list_cells():
            where = f"{OPTIONAL if name in self.optional else section}.{name}"
            check_known(f"{where}.table", "table", cell.table, self.tables)
            folder = name_folder(cell.table, name)
            if folder in folders:
                raise ValueError(f"{where}: {folders[folder]} has this name in the same table.")
            folders[folder] = where
            if isinstance(cell, ExperimentConfig):
                self._check_experiment(where, name, cell)
            elif isinstance(cell, EncoderConfig):
                self._check_encoder(where, name, cell)
            elif isinstance(cell, EnsembleConfig):
                self._check_ensemble(where, cell)
            else:
                self._check_export(where, cell)
        starts = {cell: self.find_start(cell) for cell in self.experiments}
        check_cycle("experiments.{}.init", starts)
        check_cycle("encoders.{}.init", {name: item.parent for name, item in self.encoders.items()})
        return self

    def _check_experiment(self, where: str, name: str, cell: ExperimentConfig) -> None:
        check_known(f"{where}.recipe", "recipe", cell.recipe, self.recipes)
        self._check_recipe(where, cell)
        if name in self.optional:
            return
        check_known(f"{where}.data", "task or group", cell.data, self._list_known_data())
        self._check_init(where, cell.init)

    def _check_ensemble(self, where: str, cell: EnsembleConfig) -> None:
        check_known(f"{where}.data", "task or group", cell.data, self._list_known_data())
        cells = self.list_members(cell.cells).values()
        cell.check(where, cells, self._find_trained, self.list_tasks)

    def _list_known_data(self) -> list[str]:
        groups = [PurePath(item.group).name for item in self.groups.values() if item.is_task]
        return [*self.tasks, *self.taught, *groups]

    def _check_encoder(self, where: str, name: str, config: EncoderConfig) -> None:
        check_known(f"{where}.data", "task", config.data, self.tasks)
        check_known(f"{where}.measured_on", "task", config.measured_on, self.tasks)
        self._check_init(where, config.init)
        if config.parent:
            others = [other for other in self.encoders if other != name]
            check_known(f"{where}.init", "encoder", config.parent, others)

    def _check_init(self, where: str, init: str) -> None:
        folder, _, name = init.rpartition("/")
        if folder == PROCESSED:
            check_known(f"{where}.init", "task", name, self.tasks)

    def _check_export(self, where: str, export: ExportConfig) -> None:
        trained = self._find_trained(f"{where}.cell", export.cell)
        seeds = [str(seed) for seed in trained.seeds]
        check_known(f"{where}.seed", "seed", str(export.seed), seeds)
        check_known(f"{where}.table", "table with a timing", export.table, self.timing)
        if export.teacher is None:
            return
        own = {name: item for name, item in self.exports.items() if item.table == export.table}
        check_known(f"{where}.teacher", "export", export.teacher, own)
        teacher = own[export.teacher]
        if "float32" not in teacher.variants:
            raise ValueError(
                f"{where}.teacher: found '{export.teacher}', which has no variant float32; add it "
                "there."
            )
        taught = self._find_trained(f"exports.{export.teacher}.cell", teacher.cell)
        found, expected = self.list_tasks(taught.data), self.list_tasks(trained.data)
        if found != expected:
            raise ValueError(
                f"{where}.teacher: found '{export.teacher}', which reads {', '.join(found)}, "
                f"expected one that reads {', '.join(expected)}."
            )

    def _find_trained(self, where: str, folder: str) -> ExperimentConfig:
        table, name = folder.removeprefix(CELLS).split("/")
        if name in self.ensembles and name not in self.experiments:
            found = f"{where}: found the ensemble '{name}', expected a trained cell"
            raise ValueError(f"{found}; name the cells and seeds that it averages.")
        check_known(where, "cell", name, [*self.experiments.keys() - self.optional])
        cell = self.experiments[name]
        if cell.table != table:
            raise ValueError(f"{where}: found '{folder}'; that cell is of the table {cell.table}.")
        return cell

    def find_start(self, cell: str) -> str | None:
        """Return the trained cell that a cell starts from, or None."""
        experiment = self.experiments[cell]
        where, name = f"experiments.{cell}", experiment.init.rpartition("/")[2]
        encoder = self.encoders.get(name)
        is_encoder = encoder and experiment.init == name_folder(encoder.table, name)
        if is_encoder or not experiment.init.startswith(CELLS):
            for key in ("init_seed", "keep_heads"):
                if getattr(experiment, key) not in (None, False):
                    raise ValueError(
                        f"{where}.{key}: found a value, but init is not a trained cell; remove it."
                    )
            return None
        check_known(f"{where}.init", "cell", name, [*self.experiments, *self.encoders])
        trained = self._find_trained(f"{where}.init", experiment.init)
        chosen = experiment.init_seed
        missing = {*(experiment.seeds if chosen is None else [chosen])} - {*trained.seeds}
        if missing:
            raise ValueError(
                f"{where}: init: '{name}' is not trained with the seed {min(missing)}; add it "
                f"there, or set init_seed to one of its seeds {trained.seeds}."
            )
        return name

    @model_validator(mode="after")
    def _check_named_cells(self) -> "Params":
        for key, member in self.groups.items():
            if not member.is_task:
                self._find_trained(f"groups.{key}", member.source)
        for name, item in self.taught.items():
            where = f"taught.{name}"
            trained = self._find_trained(f"{where}.cell", item.cell)
            (task,) = self.list_tasks(name)
            check_known(f"{where}.data", "task", task, self.list_tasks(trained.data))
            for seed in map(str, item.seeds):
                check_known(f"{where}.seeds", "seed", seed, [*map(str, trained.seeds)])
        return self

    def list_members(self, folder: str) -> dict[str, str]:
        """Return each member of a group, by its copy; of another folder, only itself."""
        own = [item for item in self.groups.values() if item.group == folder]
        return {item.copy_folder: item.source for item in own} or {folder: folder}

    def is_group(self, data: str) -> bool:
        return any(item.group == f"{PROCESSED}/{data}" for item in self.groups.values())

    def list_tasks(self, data: str) -> list[str]:
        """Return the tasks that the data of an experiment is: one, or those of a group."""
        members = self._list_data(data)
        while any(member in self.taught for member in members):
            members = [self.taught[m].data if m in self.taught else m for m in members]
        return members

    def _list_data(self, data: str) -> list[str]:
        sources = self.list_members(f"{PROCESSED}/{data}").values()
        return [PurePath(source).name for source in sources]

    def list_teachers(self, data: str) -> list[str]:
        """Return the cells that taught the data of an experiment, sorted."""
        found: set[str] = set()
        members = self._list_data(data)
        while members:
            if (item := self.taught.get(members.pop())) is not None:
                found.add(item.cell.rpartition("/")[2])
                members.append(item.data)
        return sorted(found)

    def check_table(self, name: str) -> None:
        """Raise ConfigError unless there is such a table."""
        check_known("params.yaml", "table", name, self.tables, ConfigError)

    def list_cells(self, table: str, further: Container[str] = ()) -> dict[str, CellConfig]:
        """Return the cells that are measured for a table, sorted: its own, and their teachers.

        Args:
            further: names whose optional cells are returned too.

        Raises:
            ConfigError: there is no such table.
        """
        self.check_table(table)
        found = {
            name: cell
            for _, name, cell in self._list_cells()
            if cell.table == table and (name not in self.optional or name in further)
        }
        for item in [*found.values()]:
            if isinstance(item, ExperimentConfig):
                found |= {name: self.experiments[name] for name in self.list_teachers(item.data)}
        return dict(sorted(found.items()))

    def _list_cells(self) -> Iterator[tuple[str, str, CellConfig]]:
        """Yield section, name and content of each cell."""
        for section in STAGES:
            for name, cell in getattr(self, section).items():
                yield section, name, cell

    def _check_recipe(self, where: str, experiment: ExperimentConfig) -> None:
        """Raise ValueError unless mixing and distillation fit the experiment's data."""
        recipe, place = self.recipes[experiment.recipe], f"{where}.recipe: '{experiment.recipe}'"
        is_group = self.is_group(experiment.data)
        members = self.list_tasks(experiment.data) if is_group else []
        if is_group != (recipe.mixing is not None):
            found = "a group of tasks and no mixing" if is_group else "one task and a mixing"
            raise ValueError(f"{place}: found {found}; only a group needs a mixing.")
        distillation = recipe.distillation
        if bool(self.list_teachers(experiment.data)) != (distillation is not None):
            found = "a distillation" if distillation else "no distillation"
            raise ValueError(
                f"{place}: found {found}; a recipe has one if the cell's data are taught, and "
                "only then."
            )
        if distillation and distillation.matching and is_group:
            raise ValueError(
                f"{place}: found a matching and '{experiment.data}', a group of tasks, expected "
                "one task; take a recipe without matching."
            )
        by_task = (recipe.task_weights, recipe.task_batch_sizes, recipe.task_lr_scales)
        named = [*chain.from_iterable(item or {} for item in by_task)]
        named += (distillation and distillation.task_weights) or {}
        named += [recipe.mixing.main] if isinstance(recipe.mixing, MainRatioMixing) else []
        for task in named:
            check_known(place, "task", task, members)


class TableConfig(ClosedModel):
    """The whole of grid/<table>.yaml: the cells of one table and how they are made."""

    shared: dict[str, Any] = Field(default_factory=dict)  # Any: values of any sort of cell
    """What cells have in common: an anchor that each of them names with `<<`."""
    metrics: list[str] = Field(default_factory=list)
    timing: TimingConfig | None = None
    recipes: dict[Name, RecipeConfig] = Field(default_factory=dict)
    experiments: dict[Name, ExperimentConfig] = Field(default_factory=dict)
    optional: dict[Name, ExperimentConfig] = Field(default_factory=dict)
    encoders: dict[Name, EncoderConfig] = Field(default_factory=dict)
    ensembles: dict[Name, EnsembleConfig] = Field(default_factory=dict)
    exports: dict[Name, ExportConfig] = Field(default_factory=dict)


def read_params(path: Path) -> Params:
    """Read and check params.yaml and the cells of each table, from grid/ next to it if it exists.

    Raises:
        ConfigError: a key, a type, a value or a reference is wrong.
    """
    if not path.exists():
        raise ConfigError(f"{path}: no such file; go to the root of a project with tables.")
    values = read_mapping(path)
    files = sorted((path.parent / GRID).glob("*.yaml"))
    if not files:
        return parse_config(values, Params, where=str(path))
    if "tables" in values:
        raise ConfigError(
            f"{path}: tables: found here, but the tables are the files of {GRID}/; remove the key."
        )
    for section in TableConfig.model_fields:
        if section in values:
            raise ConfigError(
                f"{path}: {section}: found here, expected in {GRID}/<table>.yaml; move it there."
            )
    tables = {file.stem: _read_table(file) for file in files}
    values["tables"] = list(tables)
    for section in ("metrics", "timing"):
        values[section] = {name: item[section] for name, item in tables.items() if section in item}
    values[OPTIONAL] = [name for table in tables.values() for name in table.get(OPTIONAL, {})]
    for section in ("recipes", *STAGES):
        values[section] = _merge(tables, section, path.parent / GRID)
    return parse_config(values, Params, where=f"{path} and {path.parent / GRID}")


def _merge(tables: Mapping[str, dict[str, Any]], section: str, folder: Path) -> dict[str, Any]:
    merged: dict[str, Any] = {}  # Any: YAML holds anything
    for name, table in tables.items():
        found = table.get(section, {})
        if twice := sorted(merged.keys() & found.keys()):
            raise ConfigError(
                f"{folder / name}.yaml: {section}.{twice[0]}: another table has this name; choose "
                "another."
            )
        merged |= found
    return merged


def _read_table(path: Path) -> dict[str, Any]:  # Any: YAML holds anything
    """Return the checked content of a table's file; its experiments have the optional ones."""
    plain = read_mapping(path)
    config = parse_config(plain, TableConfig, where=str(path))
    for section in (*STAGES, OPTIONAL):
        for name, cell in getattr(config, section).items():
            where = f"{path}: {section}.{name}"
            if section == OPTIONAL and name in config.experiments:
                raise ConfigError(f"{where}: an experiment has this name; choose another.")
            if cell.table != path.stem:
                raise ConfigError(
                    f"{where}.table: found '{cell.table}', expected '{path.stem}'; the cells "
                    f"of another table are in its own file, {GRID}/{cell.table}.yaml."
                )
            if isinstance(cell, ExperimentConfig) and cell.recipe not in config.recipes:
                raise ConfigError(
                    f"{where}.recipe: unknown recipe '{cell.recipe}', expected one of the "
                    f"same file. {suggest(cell.recipe, config.recipes)}"
                )
    return plain | {"experiments": plain.get("experiments", {}) | plain.get(OPTIONAL, {})}
