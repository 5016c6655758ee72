"""The page of a model that `reglue train` trained: scores, errors, curves and data."""

from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from nlp_core.data.user_task import UserTask
from nlp_core.files import write_text
from nlp_core.metrics import Predictions
from nlp_core.prediction.trained_folder import PAGE, PREDICTIONS
from nlp_core.report.cell import read_predictions
from nlp_core.report.markdown import render_rows
from nlp_core.site.breakdown import Breakdown
from nlp_core.site.environment import build_environment
from nlp_core.site.picture import draw_lines
from nlp_core.site.run_data import audit_data
from nlp_core.site.run_errors import list_errors, list_reliability, list_scores
from nlp_core.training.history import read_history

MARKDOWN = "report.md"


class PageSection(NamedTuple):
    """A part of the page: tables below pictures with their titles."""

    title: str
    tables: Sequence[Breakdown]
    pictures: Sequence[tuple[str, Markup]] = ()


def write_run_page(task: UserTask, folder: Path, title: str, commands: Sequence[str]) -> None:
    """Write report.md and report.html into a trained folder.

    Args:
        commands: to train the same model again, and to use it.
    """
    title, *commands = map(_replace_bytes, [title, *commands])
    sections = [*_list_sections(task, folder)]
    code = "\n".join(f"    {command}" for command in commands)
    parts = [f"# {title}", *map(_render_markdown, sections), f"## Commands\n\n{code}"]
    write_text(folder / MARKDOWN, "\n\n".join(parts) + "\n")
    style, script = ((files("nlp_core.site") / "assets" / name) for name in ("site.css", "site.js"))
    template = build_environment().get_template("run.html")
    page = template.render(
        title=title,
        sections=sections,
        commands=commands,
        style=Markup(style.read_text(encoding="utf-8")),
        script=Markup(script.read_text(encoding="utf-8")),
    )
    write_text(folder / PAGE, page)


def _replace_bytes(text: str) -> str:
    return text.encode(errors="surrogateescape").decode(errors="replace")


def _list_sections(task: UserTask, folder: Path) -> Iterator[PageSection]:
    data, traits = audit_data(task)
    for found in read_predictions(folder / PREDICTIONS, task, ""):
        split = task.read_split(found.split)
        yield PageSection(f"Scores on {split.name}", [list_scores(task, split, found.predictions)])
        errors = list_errors(task, split, found.predictions, traits[split.name])
        if errors:
            pictures = [*_draw_reliability(found.predictions)] if task.kind.has_confusion else []
            yield PageSection(f"Errors on {split.name}", errors, pictures)
    yield _draw_curves(task, folder)
    yield PageSection("Data", data)


def _draw_reliability(found: Predictions) -> Iterator[tuple[str, Markup]]:
    lines = {"right answers": list_reliability(found), "perfect": [(0, 0.0), (100, 100.0)]}
    title = "Right answers by confidence, %"
    yield title, draw_lines(lines, title)


def _draw_curves(task: UserTask, folder: Path) -> PageSection:
    """Return the metrics of each validation, and pictures of the first metric and of the loss."""
    scores: dict[str, list[tuple[int, float]]] = {}
    losses: list[tuple[int, float]] = []
    first, rows = task.metrics[0], []
    for event in read_history(folder):
        if event["event"] == "train":
            losses.append((event["step"], event["loss"]))
        elif event["event"] == "validate":
            metrics = {name: event["metrics"][name] for name in task.metrics}
            scores.setdefault(event["split"], []).append((event["step"], metrics[first]))
            place = [f"{event['step']:,}", f"{event['epoch']:.2f}", event["split"]]
            rows.append([*place, *(f"{value:.2f}" for value in metrics.values())])
    table = Breakdown("Validations", ["step", "epoch", "split", *task.metrics], rows)
    pictures = []
    for title, lines in ((first, scores), ("training loss", {"loss": losses})):
        if any(len(points) > 1 for points in lines.values()):
            title = f"{title[0].upper()}{title[1:]} by step"
            pictures.append((title, draw_lines(lines, title)))
    return PageSection("Learning curves", [table], pictures)


def _render_markdown(section: PageSection) -> str:
    parts = [f"## {section.title}"]
    for table in section.tables:
        heading = "" if section.title.startswith(table.title) else f"### {table.title}"
        parts += [heading, render_rows(list(table.header), map(list, table.rows)), table.note]
    return "\n\n".join(filter(None, parts))
