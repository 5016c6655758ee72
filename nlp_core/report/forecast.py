"""What building a table would do: which stages run, why, for how long, and what they download."""

import heapq
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Literal, NamedTuple, Protocol

from nlp_core.config.params import ExperimentConfig, Params
from nlp_core.config.pretraining import EncoderConfig
from nlp_core.data.source import FETCHED, Available
from nlp_core.errors import ConfigError
from nlp_core.report.cost import Costs

Basis = Literal["recorded", "similar cells", "unknown", "no training"]
TRAINING = ("finetune", "pretrain")
"""The stages that take time; the others are counted as none."""
MOST_NAMES = 2  # of stages in a reason


class DagStage(Protocol):
    """What a stage of dvc.yaml must have (nlp_core.dag.Stage)."""

    @property
    def name(self) -> str: ...
    @property
    def inputs(self) -> tuple[str, ...]: ...
    @property
    def outputs(self) -> tuple[str, ...]: ...


class Duration(NamedTuple):
    """How long a stage takes on one core, and what the estimate rests on."""

    seconds: float | None
    basis: Basis


class PlannedStage(NamedTuple):
    """A stage that would run, such as `finetune@cnn`."""

    name: str
    reasons: tuple[str, ...]
    duration: Duration
    after: tuple[str, ...]
    """The planned stages that it waits for."""


@dataclass(frozen=True)
class Forecast:
    """What building a table would do.

    Attributes:
        stages: those that would run, each after those that it waits for.
        num_current: how many stages of the table are up to date.
        cores: how many stages run at the same time.
        sources: the files of the sources to preprocess, and where they come from.
    """

    stages: list[PlannedStage]
    num_current: int
    cores: int
    sources: list[Available]

    @property
    def unknown(self) -> list[str]:
        """Stages of unknown time, which `seconds` leaves out."""
        return [stage.name for stage in self.stages if stage.duration.seconds is None]

    @property
    def seconds(self) -> float:
        """Time from start to end, as Snakemake starts what is ready, the longest first."""
        return simulate(self.stages, self.cores)

    @property
    def download_bytes(self) -> int:
        """Bytes to download, as far as sizes are known."""
        return sum(item.num_bytes or 0 for item in self._list_fetched())

    @property
    def num_unknown_sizes(self) -> int:
        return sum(item.num_bytes is None for item in self._list_fetched())

    @property
    def missing(self) -> list[Available]:
        """Files that are not here and have no address."""
        return [item for item in self.sources if item.origin == "nowhere"]

    def _list_fetched(self) -> Iterator[Available]:
        return (item for item in self.sources if item.origin in FETCHED)


def forecast(
    stages: Sequence[DagStage],
    stale: Mapping[str, tuple[str, ...]],
    *,
    estimate: Callable[[str], Duration],
    locate: Callable[[str], list[Available]],
    cores: int,
) -> Forecast:
    """Return what a run of some stages would do.

    Args:
        stages: all that the table needs.
        stale: by stage: why it must run.
        estimate: returns how long a stage that trains takes.
        locate: returns where the files of a source come from.
        cores: how many stages run at the same time.
    """
    waits = _list_waits(stages)
    planned: dict[str, PlannedStage] = {}
    for name in TopologicalSorter(waits).static_order():
        after = tuple(other for other in waits[name] if other in planned)
        if name not in stale and not after:
            continue
        more = f" and {len(after) - MOST_NAMES} more" if len(after) > MOST_NAMES else ""
        reasons = stale.get(name) or (f"after {', '.join(after[:MOST_NAMES])}{more}",)
        is_training = name.startswith(TRAINING)
        duration = estimate(name) if is_training else Duration(0.0, "no training")
        planned[name] = PlannedStage(name, reasons, duration, after)
    fetching = [name for name in planned if name.startswith("preprocess@")]
    sources = [item for name in fetching for item in locate(name.partition("@")[2])]
    return Forecast([*planned.values()], len(stages) - len(planned), cores, sources)


def select_needed(stages: Sequence[DagStage], target: str) -> list[DagStage]:
    """Return a stage with all that it needs, in the order of the file.

    Raises:
        ConfigError: dvc.yaml does not have the stage.
    """
    waits = _list_waits(stages)
    if target not in waits:
        raise ConfigError(
            f"dvc.yaml: found no stage '{target}'. A table of grid/ must be named in dvc.yaml too, "
            "in `tables` and, with what its stages read, in `vars`."
        )
    needed, waiting = {target}, [target]
    while waiting:
        others = waits[waiting.pop()].keys() - needed
        needed |= others
        waiting += others
    return [stage for stage in stages if stage.name in needed]


def find_trained(name: str, params: Params) -> ExperimentConfig | EncoderConfig:
    return params.experiments[name] if name in params.experiments else params.encoders[name]


def estimate_cell(name: str, params: Params, costs: Costs) -> Duration:
    """Return how long the training of a cell takes, by its record or by similar cells.

    A cell without a record takes, for each seed, the median of the table's cells on the same data:
    of those with the same recipe, if there are any.
    """
    means = {
        other: statistics.fmean(run.core_seconds for run in runs.values())
        for other, runs in costs.cells.items()
        if runs and (other in params.experiments or other in params.encoders)
    }
    config = find_trained(name, params)
    num_seeds = len(config.seeds)
    if name in means:
        return Duration(means[name] * num_seeds, "recorded")
    like = [other for other in means if find_trained(other, params).data == config.data]
    if isinstance(config, ExperimentConfig):
        closer = [other for other in like if params.experiments[other].recipe == config.recipe]
        like = closer or like
    if not like:
        return Duration(None, "unknown")
    return Duration(statistics.median(means[n] for n in like) * num_seeds, "similar cells")


def simulate(stages: Sequence[PlannedStage], cores: int) -> float:
    """Return when the last stage ends if each core takes the longest stage that is ready.

    Stages of unknown duration take no time.
    """
    seconds = {stage.name: stage.duration.seconds or 0.0 for stage in stages}
    waits = Counter({stage.name: len(stage.after) for stage in stages})
    followers: dict[str, list[str]] = {stage.name: [] for stage in stages}
    for stage in stages:
        for name in stage.after:
            followers[name].append(stage.name)
    ready = [(-seconds[name], name) for name in followers if waits[name] == 0]
    heapq.heapify(ready)
    running: list[tuple[float, str]] = []
    now = 0.0
    while ready or running:
        while ready and len(running) < cores:
            _, name = heapq.heappop(ready)
            heapq.heappush(running, (now + seconds[name], name))
        now, done = heapq.heappop(running)
        for name in followers[done]:
            waits[name] -= 1
            if waits[name] == 0:
                heapq.heappush(ready, (-seconds[name], name))
    return now


def _list_waits(stages: Sequence[DagStage]) -> dict[str, dict[str, None]]:
    """Return by stage those that make its inputs, in the order of these."""
    makers = {path: stage.name for stage in stages for path in stage.outputs}
    return {
        stage.name: dict.fromkeys(makers[path] for path in stage.inputs if path in makers)
        for stage in stages
    }
