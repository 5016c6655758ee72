"""A cell that averages what trained cells predict."""

from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple, Protocol

from pydantic import Field, model_validator

from nlp_core.config.base import CELLS, CellFolder, ClosedModel, Count, Name, Seeds, check_known

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


class EnsembleMemberConfig(ClosedModel):
    cell: CellFolder
    """A trained cell of any table."""
    seeds: Seeds
    """Its seeds that are averaged."""

    def __str__(self) -> str:
        table, name = self.cell.removeprefix(CELLS).split("/")
        return f"{name} of {table}, seeds {', '.join(map(str, self.seeds))}"


class EnsembleConfig(ClosedModel):
    """An average of trained models of one task: seeds of one cell, a bag, or different models."""

    table: Name
    members: Annotated[list[EnsembleMemberConfig], Field(min_length=1)]
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
    def _check_members(self) -> "EnsembleConfig":
        cells = [member.cell for member in self.members]
        if twice := next((cell for cell in cells if cells.count(cell) > 1), None):
            raise ValueError(f"members: found '{twice}' twice; list all its seeds once.")
        for member in self.members:
            if len(member.seeds) % self.repeats:
                raise ValueError(
                    f"members: found {len(member.seeds)} seeds of '{member.cell}' for "
                    f"{self.repeats} ensembles (repeats), expected a multiple; add seeds, or "
                    "change repeats."
                )
        if len(self.list_members(1)) < 2:
            raise ValueError(
                "members: found one model in an ensemble, expected at least two; add seeds or a "
                "cell, or lower repeats."
            )
        return self

    @property
    def seeds(self) -> list[int]:
        """The numbers of the ensembles, which take the place of a cell's seeds."""
        return [*range(1, self.repeats + 1)]

    def list_members(self, number: int) -> list[Member]:
        """Return the models that one of the ensembles averages."""
        found = []
        for member in self.members:
            size = len(member.seeds) // self.repeats
            own = member.seeds[size * (number - 1) : size * number]
            found += [Member(member.cell, seed) for seed in own]
        return found

    def describe(self) -> dict[str, Any]:  # Any: JSON holds anything
        """Return what its predictions depend on, as plain data; a cell's key is its digest."""
        return self.model_dump(mode="json", exclude={"table"})

    def check(
        self,
        where: str,
        find_cell: Callable[[str, str], SeededCell],
        list_tasks: Callable[[str], list[str]],
    ) -> None:
        """Raise ValueError unless every member has the seeds that it names, and all share one task.

        Args:
            find_cell: returns a trained cell of the grid, given a place and its folder.
            list_tasks: returns the tasks of a cell's data.
        """
        tasks: dict[str, None] = {}
        for member in self.members:
            trained = find_cell(f"{where}.members", member.cell)
            known = [str(seed) for seed in trained.seeds]
            for seed in member.seeds:
                check_known(f"{where}.members: '{member.cell}'", "seed", str(seed), known)
            own = list_tasks(trained.data)
            check_known(f"{where}.task", "task", self.task, own)
            tasks |= dict.fromkeys(own)
        if self.task is None and len(tasks) > 1:
            raise ValueError(
                f"{where}: found members of the tasks {', '.join(tasks)}, expected one task; set "
                "`task` to one that all of them have, or leave the other cells out."
            )
