"""The table of times: measurements of exported models -> results, report and figure.

Times are of the machine that took them: results/<table>.json keeps them, and the report is made of
that file alone.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from nlp_core.config.latency import EAGER, TEACHER
from nlp_core.config.params import Params, read_params
from nlp_core.files import write_json
from nlp_core.report.cell import find_folder, read_cell
from nlp_core.report.evaluation import build_result, summarise
from nlp_core.report.latency_figure import Line, draw_latency
from nlp_core.report.markdown import render_data, render_machines, render_rows
from nlp_core.report.results import CellResult, Results, Score
from nlp_core.report.table import Picture, read_comparison, write_files

EXACT = "float32"
RANKS = (50, 90, 99)
MEGABYTE = 1e6


class Times(Protocol):
    """What a run measured of a model."""

    @property
    def name(self) -> str:
        """How the model is run: eager, or the variant of a bundle."""

    @property
    def model(self) -> Mapping[int, float]:
        """Milliseconds a sentence at batch 1 by percentile, without featurising."""

    @property
    def whole(self) -> Mapping[int, float]:
        """The same with featurising."""

    @property
    def model_rate(self) -> float:
        """Sentences a second in batches, without featurising."""

    @property
    def whole_rate(self) -> float:
        """The same with featurising."""


class MeasuredExport(NamedTuple):
    """What was measured of an entry of exports.

    Attributes:
        runs: the times of each way of running it, and of its teacher, for each run.
        parities: of each bundle by its variant: what its export measured.
        sizes: bytes of each bundle by its variant.
    """

    runs: Sequence[Sequence[Times]]
    parities: Mapping[str, Mapping[str, Any]]
    sizes: Mapping[str, int]


def write_latency_results(
    table: str, measured: Mapping[str, MeasuredExport], hardware: str, root: Path
) -> None:
    """Write results/<table>.json: a cell for each export and way of running it.

    Args:
        table: a key of latency_tables in params.yaml.
        measured: by the key of exports.
        hardware: what the times are of.
        root: the project's root.

    Raises:
        DataError: a cell was trained otherwise than the grid says.
    """
    params = read_params(root / "params.yaml")
    cells: dict[str, CellResult] = {}
    for name, found in measured.items():
        described = _describe_cell(name, params, root, hardware)
        for way, metrics in measure_export(found).items():
            cells[f"{name}_{way}"] = described.model_copy(update={"metrics": metrics})
    results = Results(table=table, cells=dict(sorted(cells.items())))
    write_json(root / "results" / f"{table}.json", results.model_dump(exclude_defaults=True))


def measure_export(found: MeasuredExport) -> dict[str, dict[str, Score]]:
    """Return the metrics of each way of running a model, over the runs.

    `ratio` is how often the eager model's time holds its time, and `gain` how often its rate holds
    that of the float32 bundle, and `lead` that of its teacher's float32 bundle, all within a run.
    """
    metrics: dict[str, dict[str, Score]] = {}
    for idx, way in enumerate(timing.name for timing in found.runs[0]):
        if way == TEACHER:
            continue
        runs = [_measure_run(timings, idx) for timings in found.runs]
        values = {key: summarise([run[key] for run in runs]) for key in sorted(runs[0])}
        if way in found.sizes:
            values["size.megabytes"] = summarise([found.sizes[way] / MEGABYTE])
        values |= _find_scores(way, found.parities)
        metrics[way] = values
    return metrics


def _measure_run(timings: Sequence[Times], idx: int) -> dict[str, float]:
    own, by_way = timings[idx], {timing.name: timing for timing in timings}
    eager, exact, teacher = by_way[EAGER], by_way.get(EXACT), by_way.get(TEACHER)
    values = {f"latency.p{rank}": ms for rank, ms in own.model.items()}
    values |= {f"latency.whole_p{rank}": ms for rank, ms in own.whole.items()}
    values |= {"speed.per_second": own.model_rate, "speed.whole_per_second": own.whole_rate}
    values |= {f"ratio.p{rank}": eager.model[rank] / ms for rank, ms in own.model.items()}
    values["ratio.per_second"] = own.model_rate / eager.model_rate
    if exact is not None:
        values["gain.per_second"] = own.model_rate / exact.model_rate
    if teacher is not None:
        values["lead.per_second"] = own.model_rate / teacher.model_rate
        values |= {f"lead.p{rank}": teacher.model[rank] / ms for rank, ms in own.model.items()}
    return values


def _find_scores(way: str, parities: Mapping[str, Mapping[str, Any]]) -> dict[str, Score]:
    """Return the first metric of the task, where an export measured it."""
    if way in parities and "exported" in parities[way]:
        return {"score.first": summarise([parities[way]["exported"]])}
    trained = [note["trained"] for note in parities.values() if "trained" in note]
    return {"score.first": summarise(trained[:1])} if way == EAGER and trained else {}


def write_latency_report(table: str, root: Path) -> None:
    """Write the markdown and the figure of a table of times.

    Args:
        table: its name.
        root: the project's root.

    Raises:
        ConfigError: a file that a person writes is missing or wrong.
        DataError: results/<table>.json is missing or is no results file.
    """
    comparison = read_comparison(table, root)
    cells = comparison.results.cells
    config = read_params(root / "params.yaml").latency_tables[table]
    sections = [
        "## How our numbers were made",
        f"Each of {config.runs} runs times all ways of running a model in turn on the same "
        f"sentence, {config.sentences} real ones in an order of its own, after a warm-up; then "
        f"{config.batches} batches. Ratios are taken within a run.",
        _render_models(cells),
        render_data(cells),
        render_machines(cells),
        "## Again",
        f"```\ndvc repro report_latency@{table}\nsnakemake --cores 2 reports/{table}.md\n```\n\n"
        "Both do only what is not done. Another machine has other times: `dvc repro --force "
        f"--single-item measure_latency@{table}` takes them anew.",
    ]
    picture = Picture(table, "Milliseconds and sentences a second", _draw(cells))
    write_files(comparison, [picture], sections, root)


def _draw(cells: Mapping[str, CellResult]) -> bytes:
    lines = [
        Line(
            name,
            [cell.metrics[f"latency.p{rank}"].mean for rank in RANKS],
            cell.metrics["speed.per_second"].mean,
        )
        for name, cell in cells.items()
    ]
    return draw_latency(lines, "; ".join({c.fingerprint["processor"]: 0 for c in cells.values()}))


def _describe_cell(name: str, params: Params, root: Path, hardware: str) -> CellResult:
    """Return what is known of the model behind an export, without a number."""
    export = params.exports[name]
    trained = export.cell.rpartition("/")[2]
    cell = read_cell(root / find_folder(trained, params), trained, params)
    fingerprint = {**cell.fingerprint, "processor": hardware}
    described = build_result(cell, {}, {})
    changes = {"seeds": [export.seed], "fingerprint": fingerprint, "runs": {}}
    return described.model_copy(update=changes)


def _render_models(cells: Mapping[str, CellResult]) -> str:
    header = ["cell", "model", "seed", "parameters", "sentences of", "megabytes of the bundle"]
    rows = []
    for name, cell in cells.items():
        splits = [f"{task}, {facts.report_split}" for task, facts in cell.tasks.items()]
        size = cell.metrics.get("size.megabytes")
        rows.append(
            [
                f"`{name}`",
                f"[{cell.model}](../{cell.model})",
                str(cell.seeds[0]),
                f"{cell.parameters['total']:,}",
                "; ".join(splits),
                "" if size is None else f"{size.mean:.1f}",
            ]
        )
    return render_rows(header, rows)
