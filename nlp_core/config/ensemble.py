"""A cell that averages what trained cells predict."""

from collections.abc import Callable, Collection, Iterable
from typing import Annotated, Any, Literal, NamedTuple, Protocol

from pydantic import Field, model_validator

from nlp_core.config.base import CELLS, NAME_PART, ClosedModel, Count, Name, Seeds, check_known
from nlp_core.config.group import GROUPS

Combination = Literal["probabilities", "logits"]


class SeededCell(Protocol):
    """What an ensemble must know of a member's cell."""

    @property
    def seeds(self) -> list[int]: ...
    @property
    def data(self) -> str: ...


class Member(NamedTuple):
    """A trained model: the folder of its cell, and its seed."""

    cell: str
    seed: int

    def __str__(self) -> str:
        return f"{self.cell}/seed-{self.seed}"


class EnsembleConfig(ClosedModel):
    """An average of trained models of one task: seeds of one cell, a bag, or different models."""

    table: Name
    cells: Annotated[str, Field(pattern=f"^({GROUPS}|{CELLS}{NAME_PART})/{NAME_PART}$")]
    """A trained cell of any table, or a group of them."""
    data: Name
    """The task, or the group of tasks, that the cells are trained on."""
    member_seeds: Seeds
    """The seeds of each cell that are averaged."""
    combination: Combination
    """What is averaged: the probability of each label (of a random field, that of each tag at its
    token), or the logits, which is the geometric mean of the probabilities (where all members are
    random fields, that of whole labellings). Numbers and the scores of ranking heads are averaged
    as they are. Trees and texts are written by `logits`: the members choose each step by the
    product of their probabilities."""
    repeats: Count = 1
    """How many ensembles share the members' seeds equally, in their order. The table shows their
    mean and spread; one has no spread over seeds."""
    task: Name | None = None
    """A task that all members have, of multi-task cells; null: their only one."""

    @model_validator(mode="after")
    def _check_seeds(self) -> "EnsembleConfig":
        if len(self.member_seeds) % self.repeats:
            raise ValueError(
                f"member_seeds: found {len(self.member_seeds)} for {self.repeats} ensembles "
                "(repeats), expected a multiple; add seeds, or change repeats."
            )
        return self

    @property
    def seeds(self) -> list[int]:
        """The numbers of the ensembles, which take the place of a cell's seeds."""
        return [*range(1, self.repeats + 1)]

    def list_members(self, cells: Iterable[str], number: int) -> list[Member]:
        """Return the models that one of the ensembles averages."""
        size = len(self.member_seeds) // self.repeats
        own = self.member_seeds[size * (number - 1) : size * number]
        return [Member(cell, seed) for cell in cells for seed in own]

    def describe(self, cells: Iterable[str]) -> dict[str, Any]:  # Any: JSON holds anything
        """Return what its predictions depend on, as plain data; a cell's key is its digest."""
        values = self.model_dump(mode="json", include={"combination", "repeats", "task"})
        return values | {"members": [{"cell": cell, "seeds": self.member_seeds} for cell in cells]}

    def describe_members(self, cells: Iterable[str]) -> str:
        """Return the cells and their seeds in words."""
        seeds = ", ".join(map(str, self.member_seeds))
        parts = (cell.removeprefix(CELLS).split("/") for cell in cells)
        return "; ".join(f"{name} of {table}, seeds {seeds}" for table, name in parts)

    def check(
        self,
        where: str,
        cells: Collection[str],
        find_cell: Callable[[str, str], SeededCell],
        list_tasks: Callable[[str], list[str]],
    ) -> None:
        """Raise ValueError unless every cell has the seeds, and all share one task with the data.

        Args:
            cells: the folders of the cells that are averaged.
            find_cell: returns a trained cell of the grid, given a place and its folder.
            list_tasks: returns the tasks of a cell's data.
        """
        if self.cells.startswith(GROUPS) and self.cells in cells:
            raise ValueError(
                f"{where}.cells: found '{self.cells}', a group without members, expected a trained "
                "cell or a group; add its members to `groups` in params.yaml."
            )
        tasks = dict.fromkeys(list_tasks(self.data))
        check_known(f"{where}.task", "task", self.task, tasks)
        for cell in cells:
            trained = find_cell(f"{where}.cells", cell)
            known = [str(seed) for seed in trained.seeds]
            for seed in self.member_seeds:
                check_known(f"{where}.member_seeds: '{cell}'", "seed", str(seed), known)
            own = list_tasks(trained.data)
            check_known(f"{where}.task", "task", self.task, own)
            tasks |= dict.fromkeys(own)
        if self.task is None and len(tasks) > 1:
            raise ValueError(
                f"{where}: found data and cells of the tasks {', '.join(tasks)}, expected one "
                "task; set `task` to one that all of them have, or leave the other cells out."
            )
        if len(self.list_members(cells, 1)) < 2:
            raise ValueError(
                f"{where}: found one model in an ensemble, expected at least two; add seeds or a "
                "cell, or lower repeats."
            )
