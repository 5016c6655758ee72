"""The table of pretrained encoders: artifacts/pretrain -> results, report and figure."""

import json
from pathlib import Path

from nlp_core.config.params import Params, read_params
from nlp_core.config.pretraining import EncoderConfig
from nlp_core.errors import DataError
from nlp_core.files import digest_json, write_json
from nlp_core.kinds import MASKED_LANGUAGE_MODEL
from nlp_core.report.curve import Curves, draw_curves
from nlp_core.report.evaluation import summarise
from nlp_core.report.markdown import (
    render_data,
    render_machines,
    render_recipes,
    render_rows,
)
from nlp_core.report.results import CellResult, Results, RunDigests, TaskSplits, read_record
from nlp_core.report.table import Picture, read_comparison, write_files


class EncoderNote(RunDigests):
    """The content of encoder.json, which pre-training writes."""

    encoder: str
    config: dict[str, object]
    numerics: int
    data: dict[str, str]
    init: dict[str, str]
    fingerprint: dict[str, str]
    parameters: dict[str, int]
    footnotes: list[str]
    metrics: dict[str, float]


class EncoderResults(Results):
    """The content of results/<table>.json for encoders."""

    curves: Curves
    """For each encoder and text the points of held-out perplexity: step and value."""


def evaluate_encoders(table: str, root: Path) -> None:
    """Gather what was measured of all encoders of params.yaml into results/<table>.json.

    Args:
        table: a name among params.yaml's encoder_tables.
        root: the project's root.

    Raises:
        DataError: an encoder is not trained, or otherwise than params.yaml says.
    """
    params = read_params(root / "params.yaml")
    folders = {name: root / "artifacts/pretrain" / name for name in sorted(params.encoders)}
    results = EncoderResults(
        table=table,
        cells={name: _evaluate(folder, name, params) for name, folder in folders.items()},
        curves={name: _read_curves(folder) for name, folder in folders.items()},
    )
    write_json(root / "results" / f"{table}.json", results.model_dump())


def write_encoder_report(table: str, root: Path) -> None:
    """Write the markdown and the curves of a table of encoders.

    Args:
        table: its name.
        root: the project's root.

    Raises:
        ConfigError: a file that a person writes is missing or wrong.
        DataError: results/<table>.json is missing or is no results file.
    """
    comparison = read_comparison(table, root)
    path = root / "results" / f"{table}.json"
    command = f"dvc repro evaluate_encoders@{table}"
    curves = read_record(path, EncoderResults, command=command).curves
    cells = comparison.results.cells
    encoders = read_params(root / "params.yaml").encoders
    sections = [
        "## How our numbers were made",
        _render_encoders(cells, encoders),
        render_recipes(cells, encoders),
        render_data(cells),
        render_machines(cells),
        "## Again",
        f"```\ndvc repro report_encoders@{table}\nsnakemake --cores 2 reports/{table}.md\n```\n\n"
        "Both do only what is not done.",
    ]
    heads = {
        name: item.head_start.steps if item.head_start else 0 for name, item in encoders.items()
    }
    picture = Picture(table, "Held-out perplexity over the steps", draw_curves(curves, heads))
    write_files(comparison, [picture], sections, root)


def _evaluate(folder: Path, name: str, params: Params) -> CellResult:
    config, path = params.encoders[name], folder / "encoder.json"
    command = f"dvc repro pretrain@{name}"
    note = read_record(path, EncoderNote, command=command)
    said = {"config": config.describe(), "numerics": params.numerics}
    for key, expected in said.items():
        if getattr(note, key) != expected:
            raise DataError(
                f"{path}: {key}: not as params.yaml says; train the encoder as it is described now "
                f"with `{command}`."
            )
    splits = TaskSplits(
        kind=MASKED_LANGUAGE_MODEL.name, select_split="", report_split=config.measured_on
    )
    return CellResult(
        metrics={key: summarise([value]) for key, value in sorted(note.metrics.items())},
        seeds=[config.seed],
        epochs={},
        model=config.init,
        recipe=name,
        recipe_digest=digest_json(config.describe()),
        data=note.data,
        init=note.init,
        tasks={config.data: splits},
        parameters=note.parameters,
        footnotes=note.footnotes,
        fingerprint=note.fingerprint,
        numerics=note.numerics,
        runs={str(config.seed): RunDigests(weights=note.weights, validations=note.validations)},
    )


def _read_curves(folder: Path) -> dict[str, list[tuple[int, float]]]:
    curves: dict[str, list[tuple[int, float]]] = {}
    for line in (folder / "history.jsonl").read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        if event["event"] == "validate":
            point = (int(event["step"]), float(event["metrics"]["perplexity"]))
            curves.setdefault(event["split"], []).append(point)
    return curves


def _render_encoders(cells: dict[str, CellResult], encoders: dict[str, EncoderConfig]) -> str:
    header = ["encoder", "begins with", "corpus", "steps of the head alone", "steps", "parameters"]
    rows = []
    for name, cell in cells.items():
        config = encoders[name]
        head = str(config.head_start.steps) if config.head_start else ""
        total = f"{cell.parameters['total']:,}"
        rows.append([f"`{name}`", cell.model, config.data, head, str(config.num_steps), total])
    return render_rows(header, rows)
