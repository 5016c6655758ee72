"""What the cells of a table cost: core time, memory and an estimate of energy.

Training notes times in runs/, which Git ignores. `reglue cost TABLE --record` copies them to
results/cost/<table>.json, which the report shows. No stage depends on that file, so no result does.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from nlp_core.config.params import Params
from nlp_core.files import write_json
from nlp_core.report.results import CPU, CellResult, Record, Results, read_record

WATTS_PER_CORE = 12.0
"""Of any processor, as the Green Algorithms calculator takes it (its file TDP_cpu.csv)."""
POWER_USAGE_EFFECTIVENESS = 1.67
"""Worldwide average: power of a data centre over that of its computers (same source, 2021)."""
GIB = 2**30


class RunNote(Record):
    """What training noted of a run of one seed in runs/."""

    started: float | None = None
    """In seconds since the epoch."""
    seconds: float
    """Wall-clock time."""
    cpu_seconds: float | None = None
    """Computed by one process; null in a note from before it was measured."""
    peak_bytes: int | None = None
    """The most memory of one process."""
    processes: int = 1
    """How many trained together."""
    device: str = CPU
    processor: str | None = None
    weights: str | None = None
    """sha256 of the weights that it trained; null in a note from before it was kept."""
    is_resumed: bool = False
    """Whether it resumed from a checkpoint; the times are then of the last part only."""

    @property
    def core_seconds(self) -> float:
        """Seconds of one core; wall-clock seconds if nothing else was measured."""
        return self.processes * (self.seconds if self.cpu_seconds is None else self.cpu_seconds)


class Costs(Record):
    """The content of results/cost/<table>.json."""

    table: str
    cells: dict[str, dict[str, RunNote]] = Field(default_factory=dict)
    """By cell and seed."""


@dataclass(frozen=True)
class CellCost:
    """What is known of the cost of a cell's committed results."""

    runs: Mapping[str, RunNote]
    """By seed."""
    missing: list[str]
    """Seeds without a record."""

    @property
    def core_seconds(self) -> float:
        return sum(run.core_seconds for run in self.runs.values())

    @property
    def is_lower_bound(self) -> bool:
        """Whether a run was resumed, so that the first part of its time is not known."""
        return any(run.is_resumed for run in self.runs.values())

    @property
    def peak_bytes(self) -> int | None:
        """The most memory of a run with all its processes; None: not measured."""
        peaks = [run.peak_bytes * run.processes for run in self.runs.values() if run.peak_bytes]
        return max(peaks, default=None)

    @property
    def span(self) -> tuple[float, float] | None:
        """When the first run began and the last one ended, in seconds since the epoch, if known."""
        spans = [
            (run.started, run.started + run.seconds)
            for run in self.runs.values()
            if run.started is not None
        ]
        return (min(spans)[0], max(end for _, end in spans)) if spans else None

    @property
    def watt_hours(self) -> float | None:
        """The estimate of energy; None where a GPU trained, which it does not cover."""
        if any(run.device != CPU for run in self.runs.values()):
            return None
        return estimate_watt_hours(self.core_seconds)


def estimate_watt_hours(core_seconds: float) -> float:
    """Return core hours x watts of a core x power usage effectiveness.

    Source: Lannelongue et al. 2021 (Green Algorithms), https://doi.org/10.1002/advs.202100707.
    Note: The power of memory is not counted; a core is counted as fully used while it computes.
    """
    return core_seconds / 3600 * WATTS_PER_CORE * POWER_USAGE_EFFECTIVENESS


def find_costs(table: str, root: Path) -> Path:
    return root / "results" / "cost" / f"{table}.json"


def read_costs(table: str, root: Path) -> Costs:
    """Return the committed costs of a table; none if it has no file."""
    path = find_costs(table, root)
    if not path.exists():
        return Costs(table=table)
    return read_record(path, Costs, command=f"reglue cost {table} --record")


def record_costs(results: Results, params: Params, root: Path) -> Costs:
    """Copy the notes of a table's runs from runs/ to results/cost/<table>.json and return them.

    What runs/ does not have stays as it is in the file.
    """
    table = results.table
    known = read_costs(table, root).cells
    cells = {}
    for name, cell in select_trained(results, params).items():
        stage = "pretrain" if name in params.encoders else "finetune"
        noted = dict(_read_notes(root / "runs" / table / name, cell, f"{stage}@{name}"))
        if runs := known.get(name, {}) | noted:
            cells[name] = runs
    costs = Costs(table=table, cells=cells)
    write_json(find_costs(table, root), costs.model_dump())
    return costs


def _read_notes(folder: Path, cell: CellResult, stage: str) -> Iterator[tuple[str, RunNote]]:
    for seed in map(str, cell.seeds):
        path = folder / f"seed-{seed}.json"
        if path.exists():
            note = read_record(path, RunNote, command=f"dvc repro --force {stage}")
            weights = _find_weights(cell, seed)
            if note.weights in (None, weights):  # else a later training that is not measured yet
                yield seed, note.model_copy(update={"weights": weights})


def select_trained(results: Results, params: Params) -> dict[str, CellResult]:
    """Return the measured cells that a table itself trains: no exports, no teachers elsewhere."""
    sections = (params.experiments, params.encoders)
    own = {
        name for cells in sections for name, item in cells.items() if item.table == results.table
    }
    return {name: cell for name, cell in results.cells.items() if name in own}


def measure_costs(results: Results, params: Params, costs: Costs) -> dict[str, CellCost]:
    """Return the cost of each trained cell: the records of runs that gave the committed weights."""
    found = {}
    for name, cell in select_trained(results, params).items():
        records = costs.cells.get(name, {})
        seeds = [*map(str, cell.seeds)]
        runs = {
            seed: records[seed]
            for seed in seeds
            if seed in records and records[seed].weights == _find_weights(cell, seed)
        }
        found[name] = CellCost(runs, [seed for seed in seeds if seed not in runs])
    return found


def render_cost(found: Mapping[str, CellCost]) -> str:
    """Return what the training of a table's cells cost, in a paragraph; nothing without cells."""
    if not found:
        return ""
    recorded = [cell for cell in found.values() if cell.runs]
    lines = [f"Cost of training: {_render_total(recorded, len(found))}"]
    absent = [name for name, cell in found.items() if not cell.runs]
    parts = [
        f"{name} (seed {', '.join(cell.missing)})"
        for name, cell in found.items()
        if cell.runs and cell.missing
    ]
    if recorded and (absent or parts):
        lines.append(f"No record: {', '.join([*absent, *parts])}.")
    return " ".join(lines)


def describe_cost(cell: CellCost) -> dict[str, str]:
    """Return what is known of the cost of a cell, as named facts."""
    if not cell.runs:
        return {"training": "no record"}
    least = "at least " if cell.is_lower_bound else ""
    facts = {
        "training": f"{least}{format_minutes(cell.core_seconds)}",
        "seconds by seed": ", ".join(
            f"{seed}: {run.core_seconds:.0f}" for seed, run in cell.runs.items()
        ),
        "processor": ", ".join(sorted({run.processor or "unknown" for run in cell.runs.values()})),
    }
    if cell.missing:
        facts["no record of seed"] = ", ".join(cell.missing)
    if cell.peak_bytes is not None:
        facts["peak memory"] = f"{cell.peak_bytes / GIB:.1f} GiB"
    if cell.watt_hours is not None:
        facts["energy"] = f"about {format_energy(cell.watt_hours)}"
    return facts


def _render_total(recorded: list[CellCost], num_cells: int) -> str:
    noun = "cell" if num_cells == 1 else "cells"
    if not recorded:
        return f"no record of {'its' if num_cells == 1 else f'the {num_cells}'} {noun}."
    count = str(num_cells) if len(recorded) == num_cells else f"{len(recorded)} of {num_cells}"
    least = "at least " if any(cell.is_lower_bound for cell in recorded) else ""
    facts = [f"{count} {noun}", f"{least}{format_minutes(sum(c.core_seconds for c in recorded))}"]
    if peaks := [cell.peak_bytes for cell in recorded if cell.peak_bytes]:
        facts.append(f"peak {max(peaks) / GIB:.1f} GiB")
    energies = [cell.watt_hours for cell in recorded if cell.watt_hours is not None]
    if energies:
        rest = " without those of a GPU" if len(energies) < len(recorded) else ""
        facts.append(f"about {format_energy(sum(energies))}{rest}")
    return f"{', '.join(facts)} ([how this is estimated](../docs/cost.md))."


def format_minutes(core_seconds: float) -> str:
    """Return core time in words: `95 core-minutes`, `0.4 core-minutes`."""
    minutes = core_seconds / 60
    return f"{minutes:,.0f} core-minutes" if minutes >= 10 else f"{minutes:.1f} core-minutes"


def format_energy(watt_hours: float) -> str:
    """Return energy in words: `12 Wh`, `0.3 Wh`."""
    return f"{watt_hours:,.0f} Wh" if watt_hours >= 10 else f"{watt_hours:.1f} Wh"


def _find_weights(cell: CellResult, seed: str) -> str | None:
    return cell.runs[seed].weights if seed in cell.runs else None
