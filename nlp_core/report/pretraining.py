"""The section of pretrained cells: their curves, and what a report shows of them."""

import json
from collections.abc import Mapping
from pathlib import Path

from nlp_core.config.pretraining import EncoderConfig
from nlp_core.report.curve import Curves, draw_curves
from nlp_core.report.making import render_recipes
from nlp_core.report.markdown import render_rows
from nlp_core.report.results import CellResult


def read_curves(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Return the points of held-out perplexity of each text: step and value.

    Args:
        folder: of the cell.
    """
    curves: dict[str, list[tuple[int, float]]] = {}
    for line in (folder / "history.jsonl").read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        if event["event"] == "validate":
            point = (int(event["step"]), float(event["metrics"]["perplexity"]))
            curves.setdefault(event["split"], []).append(point)
    return curves


def render_encoders(
    cells: Mapping[str, CellResult], encoders: Mapping[str, EncoderConfig]
) -> list[str]:
    """Return what pretrained cells were made of and how."""
    header = ["encoder", "begins with", "corpus", "steps of the head alone", "steps", "parameters"]
    rows = []
    for name, cell in cells.items():
        config = encoders[name]
        head = str(config.head_start.steps) if config.head_start else ""
        total = f"{cell.parameters['total']:,}"
        rows.append([f"`{name}`", cell.model, config.data, head, str(config.num_steps), total])
    return [render_rows(header, rows), render_recipes(cells, encoders)]


def draw_encoders(curves: Curves, encoders: Mapping[str, EncoderConfig]) -> bytes:
    """Return the figure of the curves, as SVG."""
    heads = {
        name: item.head_start.steps if item.head_start else 0 for name, item in encoders.items()
    }
    return draw_curves(curves, heads)
