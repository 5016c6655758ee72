"""What evaluation measured: the model of results/<table>.json."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from nlp_core.errors import DataError
from nlp_core.files import PLACES

ROUNDING = 2 * 10**-PLACES
"""Of what is computed of rounded values, and rounded itself."""
CPU, ON_GPU = "cpu", "REGLUE_DEVICE=cuda"
"""The device of a fingerprint; what a command that trains on a GPU starts with."""


class Record(BaseModel):
    """A frozen record of a file that a stage wrote; unknown keys are ignored."""

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

    @property
    def follows(self) -> bool:
        """Whether mean, deviation and number are those of the values, up to rounding."""
        if self.n != len(self.values) or not self.values:
            return False
        found = summarise(self.values)
        gaps = abs(found.mean - self.mean), abs(found.sd - self.sd)
        return all(gap <= ROUNDING * max(1.0, abs(self.mean)) for gap in gaps)


def summarise(values: Sequence[float]) -> Score:
    """Return mean and sample standard deviation (n - 1; 0 for one value) of a metric's values."""
    sd = statistics.stdev(values) if len(values) > 1 else 0.0
    return Score(mean=statistics.fmean(values), sd=sd, n=len(values), values=list(values))


class TaskSplits(Record):
    """Which split of a task chose the epoch, and which are reported."""

    kind: str
    select_split: str
    report_split: str
    further_report_splits: list[str] = []

    @property
    def report_splits(self) -> list[str]:
        return [self.report_split, *self.further_report_splits]


class RunDigests(Record):
    """Digests of one seed's weights and predictions, to compare with a second run."""

    weights: str | None = None
    """sha256 of the chosen weights; null if the cell was trained before digests were kept."""
    predictions: dict[str, str] = {}
    """sha256 of the predictions, by task."""
    validations: list[str] = []
    """Digests of the weights at each validation (nlp_core.training.determinism)."""


class Provenance(Record):
    """What a cell was made of."""

    model: str
    recipe: str
    recipe_digest: str | None = None
    """Of the recipe's values; null if the cell was trained before it was kept."""
    seeds: list[int]
    data: dict[str, str]
    """Digest of each task's data."""
    init: dict[str, str] | None
    parameters: dict[str, int]
    fingerprint: dict[str, str]
    numerics: int

    @property
    def machine(self) -> str:
        """The fingerprint as text."""
        return ", ".join(f"{key} {value}" for key, value in sorted(self.fingerprint.items()))

    @property
    def is_of_gpu(self) -> bool:
        return self.fingerprint["device"] != CPU


MEAN_SPLIT = "reported"
"""In the names of metrics: the mean over the reported splits of a task that has several."""
FIRST_SCORE = "score.first"
"""The first metric of its task, of the model or bundle that is timed."""


class CellResult(Provenance):
    """What was measured of one cell, and what it was made of."""

    metrics: dict[str, Score]
    epochs: dict[str, list[float]]
    """The chosen epoch of each seed, by the way of choosing: honest, paper."""
    tasks: dict[str, TaskSplits]
    footnotes: list[str]
    runs: dict[str, RunDigests] = {}
    """By seed."""

    @property
    def reported(self) -> dict[str, Score]:
        """The metrics on reported splits; all of a pretrained or timed cell."""
        if not self.tasks or self.is_timed:
            return self.metrics
        splits = {MEAN_SPLIT}.union(*(task.report_splits for task in self.tasks.values()))
        places = {name: name.partition("@")[0].split(".") for name in self.metrics}
        return {name: score for name, score in self.metrics.items() if splits & {*places[name]}}

    @property
    def is_timed(self) -> bool:
        return "latency.p50" in self.metrics


class Results(Record):
    """The content of results/<table>.json."""

    table: str
    cells: dict[str, CellResult]
    curves: dict[str, dict[str, list[tuple[int, float]]]] = {}
    """By cell its lines of step and held-out value: of a pretrained cell the perplexity by text, of
    a trained cell the first metric by seed. A cell that was measured before curves were kept has
    none."""


def find_results(table: str, root: Path) -> Path:
    return root / "results" / f"{table}.json"


def read_results(table: str, root: Path, *, allow_missing: bool = False) -> Results:
    """Read results/<table>.json.

    Args:
        allow_missing: whether a table without the file has no cells, or is an error.

    Raises:
        DataError: it is missing, or is not what the evaluate stage writes.
    """
    path = find_results(table, root)
    if allow_missing and not path.exists():
        return Results(table=table, cells={})
    command = f"dvc repro evaluate@{table}"
    results = read_record(path, Results, command=command)
    for cell, item in results.cells.items():
        for name, score in item.metrics.items():
            if not score.follows:
                raise DataError(
                    f"{path}: cells.{cell}.metrics.{name}: found a mean of {score.mean:g}, an sd "
                    f"of {score.sd:g} and an n of {score.n}, which do not follow from the values "
                    f"{score.values}. Expected what the stage writes; remove the file and run "
                    f"`{command}` again."
                )
    return results


def read_record(path: Path, model: type[RecordT], *, command: str) -> RecordT:
    """Read a JSON file that a stage wrote.

    Args:
        command: what writes it, which the error message says to run.

    Raises:
        DataError: it is missing, or is not what the stage writes.
    """
    if not path.exists():
        raise DataError(f"{path}: no such file; run `{command}`, which writes it.")
    return parse_record(path.read_bytes(), path, model, command=command)


def parse_record(content: bytes, path: Path, model: type[RecordT], *, command: str) -> RecordT:
    """Return the record of a file's content, such as that of an older commit."""
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
