"""Train a cell again and compare weights, predictions and scores with the committed ones.

Where the machine's fingerprint is the committed one, every byte must be the same. Elsewhere a score
is compared with what the spread of the committed seeds leads to expect, if there are several.
"""

import logging
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from safetensors import safe_open

from nlp_core.config.base import CELL, SEED, check_known, read_mapping
from nlp_core.config.params import GRID, ExperimentConfig, Params
from nlp_core.config.pretraining import EncoderConfig
from nlp_core.errors import ConfigError, DataError
from nlp_core.models.saving import WEIGHTS
from nlp_core.report.cell import Place, TrainedCell, find_difference
from nlp_core.report.comparison import SMALLEST, expect_run
from nlp_core.report.evaluation import list_first, measure_seed
from nlp_core.report.results import CellResult, RunDigests, read_results
from nlp_core.training.cell import describe_cell, read_cell
from nlp_core.training.cell_run import train_seed
from nlp_core.training.determinism import (
    CPU,
    describe_machine,
    find_device,
    find_first_difference,
)
from nlp_core.training.encoder_plan import read_encoder
from nlp_core.training.ensemble import make_ensemble, read_ensemble
from nlp_core.training.pretraining import describe_encoder, pretrain_seed

log = logging.getLogger(__name__)

Outcome = Literal["identical", "different", "consistent", "inconsistent", "no verdict"]
PASSED: tuple[Outcome, ...] = ("identical", "consistent")


class MovedScore(NamedTuple):
    """A metric whose value is not the committed one, in points."""

    metric: str
    committed: float
    found: float
    sd: float
    """Standard deviation of the committed seeds; 0 for one seed."""


@dataclass(frozen=True)
class SeedVerdict:
    """How a second training of one seed compares with the committed one.

    Attributes:
        outcome: `identical` or `different` where the fingerprint is the committed one, else
            `consistent` or `inconsistent` with the committed seeds, or `no verdict` if there is
            only one.
        details: what differs, one sentence each.
    """

    place: Place
    outcome: Outcome
    details: list[str] = field(default_factory=list)
    moved: list[MovedScore] = field(default_factory=list)

    @property
    def has_passed(self) -> bool:
        return self.outcome in PASSED


def list_places(
    params: Params, root: Path, *, table: str, cells: Sequence[str], seeds: Sequence[int]
) -> list[Place]:
    """Return the seeds to verify, in the order of the results file.

    Args:
        cells: some of its cells; all that it trains if empty.
        seeds: some of their seeds; all if empty.

    Raises:
        ConfigError: there is no such table or cell, or it is not measured with a seed.
    """
    items = params.list_cells(table, params.optional).items()
    names = [name for name, item in items if item.table == table]
    for name in cells:
        check_known(f"{GRID}/{table}.yaml", "cell", name, names, ConfigError)
    measured = read_results(table, root).cells
    places = [
        Place(table, name, seed)
        for name in (cells or names)
        if name in measured
        for seed in measured[name].seeds
        if not seeds or seed in seeds
    ]
    absent = {*cells} - {place.cell for place in places}
    if not places or absent or {*seeds} - {place.seed for place in places}:
        asked = " with the seeds asked for. Leave out --seed, or" if seeds else " that trains;"
        raise ConfigError(
            f"results/{table}.json: {', '.join(sorted(absent)) or 'cells'}: found no measured "
            f"cell{asked} train and measure the cell first."
        )
    return places


def draw_places(params: Params, root: Path, *, count: int, seed: int) -> list[Place]:
    """Return one random seed of each of some random cells that can be verified.

    A CPU draws the cells that a CPU trained, a GPU those of a GPU.

    Raises:
        ConfigError: no cell can be verified.
    """
    cells, on_gpu = [], find_device().type != CPU
    for table in sorted(params.tables):
        measured = read_results(table, root, allow_missing=True).cells
        for name, result in sorted(measured.items()):
            # others start from trained cells, which a draw cannot promise
            cell = params.list_cells(table).get(name)
            is_plain = (
                isinstance(cell, ExperimentConfig)
                and cell.table == table
                and not params.list_teachers(cell.data)
                and cell.init.startswith("data/")
            )
            is_new = result.numerics == params.numerics and bool(result.runs)
            if is_plain and is_new and result.is_of_gpu == on_gpu:
                cells.append((table, name, result.seeds))
    if not cells:
        raise ConfigError(
            "results/: found no cell to draw, expected one that starts from data and that a "
            f"{'GPU' if on_gpu else 'CPU'} trained with the numerics of params.yaml. Train and "
            "measure a cell, or name a table."
        )
    draw = random.Random(seed)
    chosen = draw.sample(cells, min(count, len(cells)))
    return [Place(table, name, draw.choice(seeds)) for table, name, seeds in chosen]


def verify(
    places: Sequence[Place], params: Params, root: Path, work: Path
) -> Iterator[SeedVerdict]:
    """Train seeds again and yield how each compares.

    Args:
        work: an empty folder, or that of a killed run, which is resumed.

    Raises:
        DataError: a cell is not measured, was trained by older code or another recipe, or its data
            are missing.
    """
    measured = [(place, read_results(place.table, root).cells[place.cell]) for place in places]
    for place, committed in measured:  # all of them before hours of training
        _require_current(committed, place, params)
    for place, committed in measured:
        retrain = _average_again
        if place.cell not in params.ensembles:
            is_encoder = isinstance(_find_item(place, params), EncoderConfig)
            retrain = _retrain_encoder if is_encoder else _retrain_cell
        yield _compare(place, committed, retrain(place, params, work))


def _find_item(place: Place, params: Params) -> ExperimentConfig | EncoderConfig:
    """Return what the grid says of a cell that trains."""
    item = params.list_cells(place.table, params.optional)[place.cell]
    assert isinstance(item, ExperimentConfig | EncoderConfig), place
    return item


def _require_current(committed: CellResult, place: Place, params: Params) -> None:
    where = f"results/{place.table}.json: {place.cell}"
    item = params.list_cells(place.table, params.optional)[place.cell]
    difference = find_difference(committed, item, params)
    if difference:
        raise DataError(
            f"{where}: {difference}. Train and measure the cell as the grid describes it now; "
            "until then there is nothing to compare with."
        )
    if str(place.seed) not in committed.runs:
        raise DataError(f"{where}: found no digests of seed {place.seed}; measure the cell again.")


class Retrained(NamedTuple):
    """A second run of a seed.

    Attributes:
        reported: the metrics that a run with another fingerprint is judged by.
    """

    digests: RunDigests
    scores: Mapping[str, float]
    reported: Sequence[str]
    data: Mapping[str, str]
    weights: Path


def _retrain_cell(place: Place, params: Params, work: Path) -> Retrained:
    cell = read_cell(place.cell, params)
    # a kept seed of other data or another recipe is not taken for this one
    folder = train_seed(cell, place.seed, work / place.table / place.cell / cell.key[:16])
    trained = TrainedCell.model_validate(describe_cell(cell, {place.seed: folder}))
    digests = trained.runs[str(place.seed)]
    scores = measure_seed(folder, trained, f"reglue verify {place.table} {place.cell}")
    return Retrained(digests, scores, list_first(trained), trained.data, folder / WEIGHTS)


def _retrain_encoder(place: Place, params: Params, work: Path) -> Retrained:
    plan = read_encoder(place.cell, params)
    folder = pretrain_seed(plan, place.seed, work / place.table / place.cell / plan.key[:16])
    cell = TrainedCell.model_validate(describe_encoder(plan, {place.seed: folder}))
    scores = {name: value for name, (value,) in cell.metrics.items()}
    digests = cell.runs[str(place.seed)]
    return Retrained(digests, scores, [*scores], cell.data, folder / WEIGHTS)


def _average_again(place: Place, params: Params, work: Path) -> Retrained:
    """Average the members that are here; they are verified as cells of their own."""
    folder = work / place.table / place.cell
    ensemble = read_ensemble(place.cell, params)
    make_ensemble(ensemble, folder)
    cell = TrainedCell.model_validate(read_mapping(folder / CELL))
    seed = folder / f"{SEED}{place.seed}"
    weights = sorted(seed.rglob(WEIGHTS))[0]
    digests = cell.runs[str(place.seed)]
    scores = measure_seed(seed, cell, f"reglue verify {place.table} {place.cell}")
    return Retrained(digests, scores, list_first(cell), cell.data, weights)


def _compare(place: Place, committed: CellResult, found: Retrained) -> SeedVerdict:
    idx = committed.seeds.index(place.seed)
    moved = [
        MovedScore(name, score.values[idx], found.scores[name], score.sd)
        for name, score in sorted(committed.metrics.items())
        if name in found.scores
        and not math.isclose(score.values[idx], found.scores[name], abs_tol=1e-6)
    ]
    if describe_machine() != committed.fingerprint:
        return _compare_statistics(place, committed, found, moved)
    details = _list_data_differences(committed.data, found.data)
    details += _list_differences(committed.runs[str(place.seed)], found.digests, found.weights)
    return SeedVerdict(place, "different" if details or moved else "identical", details, moved)


def _list_data_differences(expected: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    return [
        f"the data of {task} are not the committed ones: {found.get(task)}, committed {digest}"
        for task, digest in expected.items()
        if found.get(task) != digest
    ]


def _list_differences(expected: RunDigests, found: RunDigests, weights: Path) -> list[str]:
    pairs = zip(expected.validations, found.validations, strict=False)
    names = _list_tensors(weights, found.validations)
    differences = (
        f"validation {number} of {len(expected.validations)} is the first that differs, in {name}"
        for number, (one, two) in enumerate(pairs, 1)
        if (name := find_first_difference(one, two, names))
    )
    first = next(differences, None)
    details = [first] if first else []
    if len(expected.validations) != len(found.validations):
        details.append(
            f"{len(found.validations)} validations, committed {len(expected.validations)}"
        )
    if expected.weights != found.weights:
        details.append("the chosen weights differ")
    details += [
        f"the predictions of {task} differ"
        for task, digest in expected.predictions.items()
        if found.predictions.get(task) != digest
    ]
    return details


def _list_tensors(path: Path, validations: Sequence[str]) -> list[str]:
    """Return the names that a digest covers: the weights, and their averages if it has more."""
    with safe_open(path, framework="np") as file:
        kinds = {name: file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
    averages = [f"average/{name}" for name, kind in kinds.items() if kind.startswith(("F", "BF"))]
    count = len(validations[0].partition("-")[2]) // 4 if validations else 0
    return [*kinds] if count == len(kinds) else [*kinds, *averages]


def _compare_statistics(
    place: Place, committed: CellResult, found: Retrained, moved: list[MovedScore]
) -> SeedVerdict:
    """Compare the scores with what the committed seeds expect of another run."""
    details = ["the machine's fingerprint is not the committed one, so scores are compared"]
    details += _list_data_differences(committed.data, found.data)
    outcome: Outcome = "consistent"
    for name in found.reported:
        if name not in committed.metrics:
            raise DataError(
                f"results/{place.table}.json: {place.cell}: found no {name}, which its task is "
                "measured by now; measure the cell again."
            )
        score, value = committed.metrics[name], found.scores[name]
        expected = expect_run(score, len(found.reported))
        if expected is None:
            details.append(f"{name} {value:.2f}: one seed has no spread to compare with")
            return SeedVerdict(place, "no verdict", details, moved)
        is_within = expected.low - SMALLEST <= value <= expected.high + SMALLEST
        details.append(
            f"{name} {value:.2f} is {'within' if is_within else 'outside'} the prediction interval "
            f"of the {score.n} committed seeds, {expected:.2f}"
        )
        if not is_within:
            outcome = "inconsistent"
    return SeedVerdict(place, outcome, details, moved)
