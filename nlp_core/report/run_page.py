"""The page of a user's run: scores, confusions, and the rows that are worth a look.

Shape letters: N examples, L labels.
"""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nlp_core.data.task import Split, Task
from nlp_core.files import write_text
from nlp_core.metrics import Predictions, count_confusions, measure
from nlp_core.prediction.trained_folder import PREDICTIONS
from nlp_core.report.cell import read_predictions
from nlp_core.report.markdown import list_confusion, render_rows
from nlp_core.statistics import build_score, resample

PAGE, HTML = "report.md", "report.html"
SHOWN = 10
LONGEST_TEXT = 120
MOST_LABELS = 30
"""More labels have no table of confusions."""
STYLE = (
    "body{font:15px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:.2em .6em;text-align:left}"
)


class PageSection(NamedTuple):
    """A title, and a text and a table, which may be empty; the first row is the header."""

    title: str
    text: str = ""
    rows: Sequence[Sequence[str]] = ()


def write_run_page(task: Task, folder: Path, title: str, commands: Sequence[str]) -> None:
    """Write report.md and report.html into a trained folder, if a label is predicted.

    Args:
        commands: to train the same model again, and to use it.
    """
    if not task.kind.has_confusion:
        return
    title, *commands = map(_replace_bytes, [title, *commands])
    sections: list[PageSection] = []
    for found in read_predictions(folder / PREDICTIONS, task, ""):
        split = task.read_split(found.split)
        sections += _describe_split(task, split, found.predictions)
    code = "\n".join(f"    {command}" for command in commands)
    parts = [f"# {title}", *map(_render_markdown, sections), f"## Commands\n\n{code}"]
    write_text(folder / PAGE, "\n\n".join(parts) + "\n")
    body = "".join(map(_render_html, sections))
    listing = escape("\n".join(commands))
    write_text(
        folder / HTML,
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style><h1>{escape(title)}</h1>{body}"
        f"<h2>Commands</h2><pre>{listing}</pre></html>\n",
    )


def _replace_bytes(text: str) -> str:
    return text.encode(errors="surrogateescape").decode(errors="replace")


def _describe_split(task: Task, split: Split, found: Predictions) -> list[PageSection]:
    name, kind = split.name, task.kind.name
    rows = [["metric", "score", "95 % interval"]]
    for metric, value in measure(kind, task.metrics, found).items():
        score = build_score(kind, metric, [found])
        interval = None if score is None else resample(score).interval
        rows.append([metric, f"{value:.2f}", "" if interval is None else f"{interval:.2f}"])
    sections = [PageSection(f"Scores on {name}", f"{len(split)} rows.", rows)]
    if len(found.labels) <= MOST_LABELS:
        cells = list_confusion(count_confusions(found))
        sections.append(PageSection(f"Confusions on {name}", "", cells))
    assert found.score is not None, name
    number = {label: idx for idx, label in enumerate(found.labels)}
    target = np.array([number.get(str(label), -1) for label in found.target])
    confidence = found.score.max(1)
    wrong = np.flatnonzero(found.score.argmax(1) != target)
    worst = wrong[np.argsort(-confidence[wrong], kind="stable")]
    known = np.flatnonzero(target >= 0)
    suspected = known[find_label_errors(found.score[known], target[known])]
    unsure = np.argsort(confidence, kind="stable")
    texts = {
        f"Most confident errors on {name}": ("", worst),
        f"Least confident rows on {name}": ("", unsure),
        f"Suspected label errors on {name}": (
            "The model gives another label at least the probability that rows of that label have "
            "on average (confident learning, Northcutt et al. 2021).",
            suspected,
        ),
    }
    return sections + [
        PageSection(title, text, _list_rows(split, found, chosen[:SHOWN]))
        for title, (text, chosen) in texts.items()
        if len(chosen)
    ]


def find_label_errors(
    score_NL: NDArray[np.floating], target_N: NDArray[np.integer]
) -> NDArray[np.int64]:
    """Return rows whose label is probably wrong, the most suspect first.

    A row counts if another label has at least the mean probability that it has on the rows with
    that label; the more it exceeds the probability of the row's own label, the more suspect it is.

    Source: Northcutt et al. 2021 (confident learning), section 3.1.
    """
    size, num_labels = score_NL.shape
    least_L = np.full(num_labels, np.inf)
    for label in np.unique(target_N):
        least_L[label] = score_NL[target_N == label, label].mean()
    confident_NL = np.where(score_NL >= least_L, score_NL, -1.0)
    own_N = np.arange(size), target_N
    confident_NL[own_N] = -1.0
    margin_N = confident_NL.max(1) - score_NL[own_N]
    rows = np.flatnonzero((confident_NL.max(1) >= 0) & (margin_N > 0))
    return rows[np.argsort(-margin_N[rows], kind="stable")]


def _list_rows(split: Split, found: Predictions, chosen: NDArray[np.int64]) -> list[list[str]]:
    assert found.score is not None, split.name
    rows = [["example", "label", "prediction", "confidence", "text"]]
    for row in chosen.tolist():
        label, prediction = str(found.target[row]), str(found.prediction[row])
        confidence = f"{found.score[row].max():.2f}"
        rows.append([str(split.ids[row] + 1), label, prediction, confidence, _read(split, row)])
    return rows


def _read(split: Split, row: int) -> str:
    """Return the text of an example, or both of a pair, on one line."""
    if split.raw is None:
        texts = [" ".join(column.row(row)) for column in split.texts.values()]
    else:
        texts = [split.raw.first[row]]
        texts += [] if split.raw.second is None else [split.raw.second[row]]
    whole = " / ".join(" ".join(text.split()) for text in texts)
    return whole if len(whole) <= LONGEST_TEXT else f"{whole[: LONGEST_TEXT - 3]}..."


def _render_markdown(section: PageSection) -> str:
    table = render_rows(list(section.rows[0]), map(list, section.rows[1:])) if section.rows else ""
    return "\n\n".join(part for part in (f"## {section.title}", section.text, table) if part)


def _render_html(section: PageSection) -> str:
    lines = [
        "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row) + "</tr>"
        for tag, row in zip(["th", *["td"] * len(section.rows)], section.rows, strict=False)
    ]
    text = f"<p>{escape(section.text)}</p>" if section.text else ""
    return f"<h2>{escape(section.title)}</h2>{text}<table>{''.join(lines)}</table>"
