"""The closed models of exports in grid/<table>.yaml: `exports`, and `timing` of the table."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from nlp_core.config.base import ClosedModel
from nlp_core.config.name import CellFolder, Name
from nlp_core.config.number import Count

Variant = Literal["float32", "int8", "program"]
"""The form of an exported model: an ONNX graph with numbers of that many bits, or a program for
torch."""
EAGER = "eager"
TEACHER = "teacher"
"""Names of the times of a model in torch, and of a student's teacher; no bundle is named so."""


class ExportConfig(ClosedModel):
    """Bundles of one seed of a trained cell."""

    table: Name
    """The table of times that the bundles belong to."""
    cell: CellFolder
    """Folder of the trained cell."""
    seed: Annotated[int, Field(ge=0)]
    """Which of its seeds."""
    task: Name | None = None
    """Which task of a cell of several; null: its only one."""
    variants: Annotated[list[Variant], Field(min_length=1)]
    """A bundle for each; none twice."""
    max_drop: Annotated[float, Field(ge=0)] | None = None
    """By how much, in its units, the first metric of the task may be worse than that of the trained
    model, for int8; needed with it."""

    teacher: Name | None = None
    """The export of the table whose float32 bundle is timed in turn on the same sentences, such as
    that of a student's teacher; null: none."""

    @model_validator(mode="after")
    def _check_variants(self) -> "ExportConfig":
        if len(set(self.variants)) != len(self.variants):
            raise ValueError(f"found variants {self.variants}; each may stand once.")
        if self.max_drop is None and "int8" in self.variants:
            raise ValueError(
                "max_drop: found none; a variant of fewer bits is kept only where the task's first "
                "metric is worse by no more than that."
            )
        return self


class TimingConfig(ClosedModel):
    """How bundles are timed, each with the trained model that it was made from."""

    runs: Count
    """How often everything is timed; the report has mean and spread over these."""
    sentences: Count
    """How many are timed one by one in a run."""
    batches: Count
    """How many batches of 32 are timed in a run."""
    threads: Count
    """Of each model."""
    compiled: bool = False
    """Whether the trained model, compiled by torch, is timed too."""
