"""The closed models of exports in grid/: the bundles of a trained cell, and how they are timed."""

from typing import Annotated, Literal

from pydantic import model_validator

from nlp_core.config.base import CellFolder, ClosedModel, Count, Distinct, Name, NonNegative, Whole

Variant = Literal["float32", "int8", "program"]
"""The form of an exported model: an ONNX graph with numbers of that many bits, or a program for
torch."""


class ExportConfig(ClosedModel):
    """One seed of a trained cell that is timed, with its bundles; without variants it has none."""

    table: Name
    """The table of times that the bundles belong to."""
    cell: CellFolder
    seed: Whole
    task: Name | None = None
    """A task of a multi-task cell; null: the only one."""
    variants: Annotated[list[Variant], Distinct]
    max_drop: NonNegative | None = None
    """For int8, which needs it: largest drop of the task's first metric, in its units."""
    teacher: Name | None = None
    """The export of the table whose float32 bundle is timed in turn on the same sentences, such as
    that of a student's teacher; null: none."""

    @model_validator(mode="after")
    def _check_variants(self) -> "ExportConfig":
        if self.max_drop is None and "int8" in self.variants:
            raise ValueError(
                "max_drop: found none with the variant int8; set the largest drop of the task's "
                "first metric with which it is kept."
            )
        return self


class TimingConfig(ClosedModel):
    """How bundles are timed, each with the trained model that it was made from."""

    runs: Count
    """How often everything is timed; the report has mean and spread over these."""
    sentences: Count
    """Sentences that a run times one by one."""
    batches: Count
    """Batches of 32 that a run times."""
    threads: Count
    """Threads of each model."""
    compiled: bool = False
    """Whether the trained model, compiled by torch, is timed too."""
