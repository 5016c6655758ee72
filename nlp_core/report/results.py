"""What evaluation measured: the model of results/<table>.json."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from nlp_core.errors import DataError


class Record(BaseModel):
    """A frozen record of a file that a stage wrote; further keys are kept out of the way."""

    model_config = ConfigDict(extra="ignore", frozen=True)


RecordT = TypeVar("RecordT", bound=Record)


class Score(Record):
    """A metric over the seeds of a cell, in points."""

    mean: float
    sd: float
    """Sample standard deviation (n - 1); 0 for one seed."""
    n: int
    values: list[float]
    """In the order of the seeds."""


def summarise(values: Sequence[float]) -> Score:
    """Return mean and sample standard deviation (n - 1; 0 for one value) of a metric's values."""
    sd = statistics.stdev(values) if len(values) > 1 else 0.0
    return Score(mean=statistics.fmean(values), sd=sd, n=len(values), values=list(values))


class TaskSplits(Record):
    """Which splits of a task were used for what."""

    kind: str
    select_split: str
    report_split: str
    further_report_splits: list[str] = []


class RunDigests(Record):
    """What one seed of a cell gave, to compare a second run with."""

    weights: str | None = None
    """sha256 of the chosen weights; null of a cell that was trained before digests were kept."""
    predictions: dict[str, str] = {}
    """sha256 of the predictions, by task."""
    validations: list[str] = []
    """Digests of the weights at each validation (nlp_core.training.determinism)."""


class CellResult(Record):
    """What was measured of one cell, and what it was made of."""

    metrics: dict[str, Score]
    seeds: list[int]
    epochs: dict[str, list[float]]
    """The epoch that was chosen, by seed, for each way of choosing: honest, paper."""
    model: str
    recipe: str
    recipe_digest: str | None = None
    """Of the recipe's values; null of a cell that was trained before there was one."""
    data: dict[str, str]
    init: dict[str, str] | None
    tasks: dict[str, TaskSplits]
    parameters: dict[str, int]
    footnotes: list[str]
    fingerprint: dict[str, str]
    numerics: int
    runs: dict[str, RunDigests] = {}
    """By seed."""

    @property
    def is_timed(self) -> bool:
        """Whether it was measured by its times."""
        return any(metric.startswith("latency.") for metric in self.metrics)


class Results(Record):
    """The content of results/<table>.json."""

    table: str
    cells: dict[str, CellResult]
    curves: dict[str, dict[str, list[tuple[int, float]]]] = {}
    """Of each pretrained cell and text the points of held-out perplexity: step and value."""


def read_results(path: Path) -> Results:
    """Read a results file.

    Raises:
        DataError: it is missing, or is not what the evaluate stage writes.
    """
    return read_record(path, Results, command=_name_command(path))


def parse_results(content: bytes, path: Path) -> Results:
    """Return the results of a file's content, such as that of an older commit.

    Args:
        content: JSON.
        path: the file, for messages.

    Raises:
        DataError: it is not what the evaluate stage writes.
    """
    return _parse_record(content, path, Results, command=_name_command(path))


def _name_command(path: Path) -> str:
    return f"dvc repro evaluate@{path.stem}"


def read_record(path: Path, model: type[RecordT], *, command: str) -> RecordT:
    """Read a JSON file that a stage wrote.

    Args:
        model: what it must hold.
        command: what writes it, which the error message says to run.

    Raises:
        DataError: it is missing, or is not what the stage writes.
    """
    if not path.exists():
        raise DataError(f"{path}: there is no such file; run `{command}`, which writes it.")
    return _parse_record(path.read_bytes(), path, model, command=command)


def _parse_record(content: bytes, path: Path, model: type[RecordT], *, command: str) -> RecordT:
    try:
        return model.model_validate_json(content)
    except ValidationError as err:
        faults = "; ".join(_explain(dict(item)) for item in err.errors(include_url=False))
        raise DataError(
            f"{path}: {faults}. Expected what the stage writes; remove the file and run "
            f"`{command}` again."
        ) from err


def _explain(error: dict[str, Any]) -> str:
    key = ".".join(str(part) for part in error["loc"]) or "(the whole)"
    return f"{key}: {error['msg'][:1].lower()}{error['msg'][1:]}"
