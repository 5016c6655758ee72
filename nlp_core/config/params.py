"""The closed models of params.yaml and grid/: the grid, and everything that changes a number."""

from collections.abc import Collection, Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from nlp_core.config.base import ClosedModel, Seed, parse_config, read_mapping
from nlp_core.config.distillation import (
    SOFT_LABELS,
    DistilledTableConfig,
    TeacherConfig,
)
from nlp_core.config.export import ExportConfig
from nlp_core.config.latency import LatencyTableConfig
from nlp_core.config.mixing import MainRatioMixing
from nlp_core.config.name import Name
from nlp_core.config.number import Count
from nlp_core.config.pretraining import EncoderConfig
from nlp_core.config.recipe import RecipeConfig
from nlp_core.errors import ConfigError, suggest

GRID = "grid"
"""The folder beside params.yaml with a file for the cells of each table."""
TRAINED = "artifacts/finetune/"
"""Where trained cells are: an init in there is one."""


class ExperimentConfig(ClosedModel):
    """A cell: a model on a task, trained by a recipe, over seeds."""

    stage: ClassVar[str] = "finetune"
    """The stage that trains it, and the folder below artifacts/ that it is written to."""

    table: Name
    """The table that the cell belongs to."""
    model: Annotated[str, Field(pattern=r"^zoo/[a-z0-9_/]+\.json$")]
    """Path of the model file."""
    data: Name
    """The task: a name under sources/ and data/processed/; or a group of tasks."""
    init: Annotated[str, Field(pattern=r"^(data/processed|artifacts)/[a-z0-9_/]+$")]
    """Folder of the vectors or the encoder that the model starts from; or of a trained cell, whose
    layers it goes on with: artifacts/finetune/<table>/<cell>."""
    init_seed: Annotated[int, Field(ge=0)] | None = None
    """Seed of the trained cell that all seeds start from; null: each from its own."""
    keep_heads: bool = False
    """Whether heads of the same name and shapes as in the trained cell go on with its weights."""
    recipe: Name
    """A key of recipes."""
    seeds: Annotated[list[Seed], Field(min_length=1)]
    """One run for each; none twice."""

    @model_validator(mode="after")
    def _check_seeds(self) -> "ExperimentConfig":
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"found seeds {self.seeds}; each seed may stand once.")
        return self


class StudentConfig(ExperimentConfig):
    """A cell that learns from soft labels as well."""

    stage: ClassVar[str] = "distill"

    soft_labels: Annotated[str, Field(pattern=rf"^{SOFT_LABELS}/[a-z][a-z0-9_]*$")]
    """Folder of the set of soft labels."""

    @property
    def soft_set(self) -> str:
        """Name of the set of soft labels."""
        return self.soft_labels.rpartition("/")[2]


class Params(ClosedModel):
    """The whole of params.yaml, with the cells of all files of grid/."""

    numerics: Count
    """Raised when a change of code moves a number; every trained cell depends on it."""
    sources: Annotated[list[Name], Field(min_length=1)]
    """What the download stage fetches: names of files under sources/."""
    tasks: Annotated[list[Name], Field(min_length=1)]
    """What the preprocess stage makes; each is also a source."""
    groups: dict[Name, Annotated[list[Name], Field(min_length=2)]] = Field(default_factory=dict)
    """Tasks that are trained together, by the name of their group."""
    tables: Annotated[list[Name], Field(min_length=1)]
    """The tables, each with a file under reports/published/."""
    encoders: dict[Name, EncoderConfig] = Field(default_factory=dict)
    """What the pretrain stage makes; none is in the tables above."""
    encoder_tables: list[Name] = Field(default_factory=list)
    """The tables of encoders, each of all of them; with a file under reports/published/."""
    teachers: dict[Name, TeacherConfig] = Field(default_factory=dict)
    """What the teach stage scores, for students to learn from."""
    distilled_tables: dict[Name, DistilledTableConfig] = Field(default_factory=dict)
    """The tables that have students; with a file under reports/published/. None is in tables."""
    exports: dict[Name, ExportConfig] = Field(default_factory=dict)
    """What the export stage makes bundles of."""
    latency_tables: dict[Name, LatencyTableConfig] = Field(default_factory=dict)
    """The tables of times; with a file under reports/published/. None is in tables."""
    recipes: dict[Name, RecipeConfig]
    experiments: dict[Name, ExperimentConfig]
    distillations: dict[Name, StudentConfig] = Field(default_factory=dict)
    """The students: cells like experiments, with soft labels; no name is that of one of these."""

    @property
    def cells(self) -> dict[str, ExperimentConfig]:
        """All cells: experiments and students."""
        return {**self.experiments, **self.distillations}

    @property
    def all_tables(self) -> list[str]:
        """All tables of cells."""
        return [*self.tables, *self.distilled_tables]

    @model_validator(mode="after")
    def _check_references(self) -> "Params":
        for task in self.tasks:
            _check_known("tasks", "source", task, self.sources)
        for group, members in self.groups.items():
            for task in members:
                _check_known(f"groups.{group}", "task", task, self.tasks)
            if group in self.tasks:
                raise ValueError(f"groups.{group}: a task has this name; choose another one.")
            if twice := next((task for task in members if members.count(task) > 1), None):
                raise ValueError(f"groups.{group}: found '{twice}' twice, expected it once.")
        for section, cell, experiment in self._list_cells():
            where = f"{section}.{cell}"
            tables = self.all_tables if section == "experiments" else self.distilled_tables
            _check_known(f"{where}.table", "table", experiment.table, tables)
            known = [*self.tasks, *self.groups]
            _check_known(f"{where}.data", "task or group", experiment.data, known)
            _check_known(f"{where}.recipe", "recipe", experiment.recipe, self.recipes)
            self._check_mixing(where, experiment)
            self._check_recipe(where, experiment)
            folder, _, name = experiment.init.rpartition("/")
            if folder == "data/processed":
                _check_known(f"{where}.init", "task", name, self.tasks)
            if folder == "artifacts/pretrain":
                _check_known(f"{where}.init", "encoder", name, self.encoders)
        return self

    @model_validator(mode="after")
    def _check_exports(self) -> "Params":
        for name, export in self.exports.items():
            stage, table, cell = export.cell.split("/")[1:]
            where = f"exports.{name}"
            _check_known(f"{where}.cell", "cell", cell, self.cells)
            experiment = self.cells[cell]
            if (experiment.stage, experiment.table) != (stage, table):
                raise ValueError(
                    f"{where}.cell: found '{export.cell}'; that cell is of the stage "
                    f"{experiment.stage} and the table {experiment.table}."
                )
            seeds = [str(seed) for seed in experiment.seeds]
            _check_known(f"{where}.seed", "seed", str(export.seed), seeds)
        for table, config in self.latency_tables.items():
            if table in self.all_tables:
                raise ValueError(f"latency_tables: found '{table}', which has cells as well.")
            for name in config.exports:
                _check_known(f"latency_tables.{table}.exports", "export", name, self.exports)
            for student, teacher in config.teachers.items():
                self._check_timed_pair(f"latency_tables.{table}.teachers", student, teacher, config)
        return self

    def _check_timed_pair(
        self, where: str, student: str, teacher: str, config: LatencyTableConfig
    ) -> None:
        """Refuse a teacher that cannot be timed on the sentences of its student."""
        _check_known(where, "export", student, config.exports)
        _check_known(f"{where}.{student}", "export", teacher, self.exports)
        if "float32" not in self.exports[teacher].variants:
            raise ValueError(
                f"{where}.{student}: found '{teacher}', which has no variant float32; add it there."
            )
        found, expected = (
            self.cells[self.exports[name].cell.rpartition("/")[2]].data
            for name in (teacher, student)
        )
        if found != expected:
            raise ValueError(
                f"{where}.{student}: found '{teacher}', which reads {found}, expected a teacher "
                f"that reads {expected}, as its student."
            )

    @model_validator(mode="after")
    def _check_encoders(self) -> "Params":
        for encoder, config in self.encoders.items():
            where = f"encoders.{encoder}"
            _check_known(f"{where}.data", "task", config.data, self.tasks)
            _check_known(f"{where}.measured_on", "task", config.measured_on, self.tasks)
            folder, _, name = config.init.rpartition("/")
            if folder == "data/processed":
                _check_known(f"{where}.init", "task", name, self.tasks)
            if folder == "artifacts/pretrain":
                others = [other for other in self.encoders if other != encoder]
                _check_known(f"{where}.init", "encoder", name, others)
        for table in self.encoder_tables:
            if table in self.tables:
                raise ValueError(f"encoder_tables: found '{table}', which is in tables as well.")
            if not self.encoders:
                raise ValueError(f"encoder_tables: found '{table}' and no encoders.")
        return self

    @model_validator(mode="after")
    def _check_starts(self) -> "Params":
        for section, cell, _ in self._list_cells():
            chain = [cell]
            while (start := self.find_start(chain[-1])) is not None:
                if start in chain:
                    circle = " from ".join([*chain, start])
                    raise ValueError(f"{section}.{cell}.init: found a circle: {circle}.")
                chain.append(start)
        return self

    def find_start(self, cell: str) -> str | None:
        """Return the cell that a cell starts from, or None."""
        experiment = self.cells[cell]
        where = f"{'experiments' if cell in self.experiments else 'distillations'}.{cell}"
        if not experiment.init.startswith(TRAINED):
            for key in ("init_seed", "keep_heads"):
                if getattr(experiment, key) not in (None, False):
                    raise ValueError(
                        f"{where}.{key}: found a value, but init is no trained cell; remove it."
                    )
            return None
        name = experiment.init.rpartition("/")[2]
        _check_known(f"{where}.init", "cell", name, self.experiments)
        trained = self.experiments[name]
        folder = f"{TRAINED}{trained.table}/{name}"
        if experiment.init != folder:
            raise ValueError(f"{where}.init: found '{experiment.init}', expected '{folder}'.")
        chosen = experiment.init_seed
        missing = {*(experiment.seeds if chosen is None else [chosen])} - {*trained.seeds}
        if missing:
            raise ValueError(
                f"{where}: init: '{name}' is not trained with the seed {min(missing)}; add it "
                f"there, or set init_seed to one of its seeds {trained.seeds}."
            )
        return name

    @model_validator(mode="after")
    def _check_teachers(self) -> "Params":
        for name, teacher in self.teachers.items():
            where = f"teachers.{name}"
            stage, table, cell = teacher.cell.split("/")[1:]
            known = [
                key
                for key, item in self.cells.items()
                if (item.stage, item.table) == (stage, table)
            ]
            _check_known(f"{where}.cell", "cell", cell, known)
            trained = self.cells[cell]
            _check_known(f"{where}.data", "task", teacher.data, self.tasks)
            _check_known(f"{where}.task", "task", teacher.taught, self.list_tasks(trained.data))
            for seed in teacher.seeds:
                if seed not in trained.seeds:
                    raise ValueError(
                        f"{where}.seeds: found {seed}, which cell '{cell}' is not trained with, "
                        f"expected some of {trained.seeds}."
                    )
        return self

    @model_validator(mode="after")
    def _check_students(self) -> "Params":
        for cell, student in self.distillations.items():
            where = f"distillations.{cell}"
            if cell in self.experiments:
                raise ValueError(f"{where}: an experiment has this name; choose another one.")
            sets = sorted({item.set for item in self.teachers.values()})
            _check_known(f"{where}.soft_labels", "set", student.soft_set, sets)
            tasks = self.list_tasks(student.data)
            for name, teacher in self.list_teachers(student).items():
                if teacher.taught not in tasks:
                    raise ValueError(
                        f"{where}.soft_labels: teacher '{name}' of the set '{student.soft_set}' "
                        f"teaches {teacher.taught}, expected one of the student's tasks: "
                        f"{', '.join(tasks)}. Put that teacher into a set of its own."
                    )
        for table in self.distilled_tables:
            if table in self.tables:
                raise ValueError(f"distilled_tables: found '{table}', which is in tables as well.")
            for section, cells in (
                ("experiment", self.experiments),
                ("student", self.distillations),
            ):
                if not any(item.table == table for item in cells.values()):
                    raise ValueError(
                        f"distilled_tables: found '{table}', which no {section} belongs to; it has "
                        "a student at least, and an experiment, the same model without a teacher."
                    )
        return self

    def list_teachers(self, student: StudentConfig) -> dict[str, TeacherConfig]:
        """Return the teachers of a student, by name."""
        return {name: item for name, item in self.teachers.items() if item.set == student.soft_set}

    def _list_cells(self) -> Iterator[tuple[str, str, ExperimentConfig]]:
        """Yield section, name and content of each cell."""
        for section in ("experiments", "distillations"):
            for cell, item in getattr(self, section).items():
                yield section, cell, item

    def list_tasks(self, data: str) -> list[str]:
        """Return the tasks that the data of an experiment is: one, or those of a group."""
        return self.groups.get(data, [data])

    def _check_recipe(self, where: str, experiment: ExperimentConfig) -> None:
        """Refuse a recipe with a teacher for a cell that has none, and the other way round."""
        distillation = self.recipes[experiment.recipe].distillation
        if isinstance(experiment, StudentConfig) != (distillation is not None):
            found = "a distillation" if distillation else "no distillation"
            raise ValueError(
                f"{where}.recipe: '{experiment.recipe}': found {found}; the recipe of "
                "a student has one, and that of an experiment has none."
            )
        if distillation and distillation.matching and experiment.data in self.groups:
            raise ValueError(
                f"{where}.recipe: '{experiment.recipe}': found a matching and '{experiment.data}', "
                "a group of tasks, expected one task; take a recipe without matching."
            )
        for task in (distillation and distillation.task_weights) or {}:
            members = self.groups.get(experiment.data, [])
            _check_known(f"{where}.recipe: '{experiment.recipe}'", "task", task, members)

    def _check_mixing(self, where: str, experiment: ExperimentConfig) -> None:
        """Refuse a recipe that mixes what is not there, or does not say how to mix a group."""
        recipe = self.recipes[experiment.recipe]
        members = self.groups.get(experiment.data, [])
        place = f"{where}.recipe: '{experiment.recipe}'"
        if bool(members) != (recipe.mixing is not None):
            found = "a group of tasks and no mixing" if members else "one task and a mixing"
            raise ValueError(f"{place}: found {found}; a group needs a mixing, and it alone.")
        by_task = (recipe.task_weights, recipe.task_batch_sizes, recipe.task_lr_scales)
        main = [recipe.mixing.main] if isinstance(recipe.mixing, MainRatioMixing) else []
        for task in [*chain.from_iterable(item or {} for item in by_task), *main]:
            _check_known(place, "task", task, members)


class TableConfig(ClosedModel):
    """The whole of grid/<table>.yaml: the cells of one table and how they are trained."""

    recipes: dict[Name, RecipeConfig] = Field(default_factory=dict)
    experiments: dict[Name, ExperimentConfig] = Field(default_factory=dict)
    distillations: dict[Name, StudentConfig] = Field(default_factory=dict)


def read_params(path: Path) -> Params:
    """Read and check params.yaml and the cells of each table, from the folder grid/ beside it.

    Where there is no such folder, params.yaml has them itself.

    Raises:
        ConfigError: a key, a type, a value or a reference is wrong.
    """
    values = read_mapping(path)
    files = sorted((path.parent / GRID).glob("*.yaml"))
    if not files:
        return parse_config(values, Params, where=str(path))
    for section in TableConfig.model_fields:
        if section in values:
            raise ConfigError(
                f"{path}: {section}: found here, expected in {GRID}/<table>.yaml; move it there."
            )
    tables = [_read_table(file) for file in files]
    for section in TableConfig.model_fields:
        values[section] = {}
        for file, table in zip(files, tables, strict=True):
            twice = sorted(values[section].keys() & table[section].keys())
            if twice:
                raise ConfigError(
                    f"{file}: {section}.{twice[0]}: another table has this name; choose another."
                )
            values[section] |= table[section]
    return parse_config(values, Params, where=f"{path} and {path.parent / GRID}")


def _read_table(path: Path) -> dict[str, dict[str, Any]]:
    """Return the sections of a table's file as plain data, each of them checked."""
    plain = read_mapping(path)
    config = parse_config(plain, TableConfig, where=str(path))
    for section in ("experiments", "distillations"):
        for cell, experiment in getattr(config, section).items():
            where = f"{path}: {section}.{cell}"
            if experiment.table != path.stem:
                raise ConfigError(
                    f"{where}.table: found '{experiment.table}', expected '{path.stem}'; the cells "
                    f"of another table are in its own file, {GRID}/{experiment.table}.yaml."
                )
            if experiment.recipe not in config.recipes:
                raise ConfigError(
                    f"{where}.recipe: unknown recipe '{experiment.recipe}', expected one of the "
                    f"same file. {suggest(experiment.recipe, config.recipes)}"
                )
    return {section: plain.get(section, {}) for section in TableConfig.model_fields}


def _check_known(where: str, sort: str, name: str, allowed: Collection[str]) -> None:
    if name not in allowed:
        raise ValueError(f"{where}: unknown {sort} '{name}'. {suggest(name, allowed)}")
