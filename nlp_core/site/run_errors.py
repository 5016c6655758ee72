"""Where a model of `reglue train` is wrong, with the texts of its examples.

Shape letters: N examples, L labels.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from operator import eq

import numpy as np
from numpy.typing import NDArray

from nlp_core.data.audit.traits import Traits
from nlp_core.data.task import Split, Task
from nlp_core.metrics import Predictions, measure
from nlp_core.report.examples import Runs, TaskFacts, stores_sums
from nlp_core.site.breakdown import ROWS, SEEDS_AGREE, Breakdown
from nlp_core.site.review import break_down
from nlp_core.statistics import build_score, resample

SHOWN = 10
LONGEST_TEXT = 120
MOST_LABELS = 30
"""More labels have no confusion matrix, and only the worst of them are listed."""
ROW_COLUMNS = ("row", "row ranked first")
"""Columns with the row of an example, whose text is shown next to it."""


def list_scores(task: Task, split: Split, found: Predictions) -> Breakdown:
    """Return the metrics of a split with their intervals."""
    kind, rows = task.kind.name, []
    for metric, value in measure(kind, task.metrics, found).items():
        score = build_score(kind, metric, [found])
        interval = None if score is None else resample(score).interval
        rows.append([metric, f"{value:.2f}", "" if interval is None else f"{interval:.2f}"])
    return Breakdown("Scores", ["metric", "score", "95 % interval"], rows, f"{len(split)} rows.")


def list_errors(task: Task, split: Split, found: Predictions, traits: Traits) -> list[Breakdown]:
    """Return the tables that fit the kind of a task."""
    facts = TaskFacts(
        kind=task.kind.name,
        labels=list(task.labels),
        metrics=list(task.metrics),
        report_split=split.name,
        scheme=task.scheme,
    )
    if stores_sums(facts):  # the answers are texts
        table = _list_wrong_texts(split, found)
        return [table] if table.rows else []
    runs = Runs(facts, split.name, "", "", tuple(split.ids.tolist()), [found])
    tables = [
        *map(partial(_add_texts, split), _choose(runs, traits)),
        *_list_rows_to_check(split, found, has_label=task.kind.has_confusion),
    ]
    return [table for table in tables if table.rows]


def _list_wrong_texts(split: Split, found: Predictions) -> Breakdown:
    """Return the first examples whose answer is none of the right texts."""
    rows = []
    for row, (target, prediction) in enumerate(zip(found.target, found.prediction, strict=True)):
        right = list(target) if isinstance(target, list | tuple) else [target]
        if (prediction or "") not in (right or [""]):
            answers = shorten(str(right[0] if right else "")), shorten(str(prediction or ""))
            rows.append([str(split.ids[row]), *answers, _read(split, row)])
    header = ["row", "right", "predicted", "text"]
    note = f"{ROWS} The first {2 * SHOWN}." if len(rows) > 2 * SHOWN else ROWS
    return Breakdown("Wrong answers", header, rows[: 2 * SHOWN], note)


def list_reliability(found: Predictions) -> list[tuple[int, float]]:
    """Return for each tenth of the confidence its mean and the share of right answers, in %."""
    assert found.score is not None
    confidence = found.score.max(1)
    right = np.array([*map(eq, map(str, found.target), map(str, found.prediction))])
    tenth = np.minimum(10 * confidence, 9).astype(int)
    chosen = [tenth == number for number in np.unique(tenth)]
    return [(round(100 * confidence[rows].mean()), 100 * right[rows].mean()) for rows in chosen]


def _choose(runs: Runs, traits: Traits) -> Iterator[Breakdown]:
    """Yield the tables of errors that fit one run and its number of labels."""
    has_many = len(runs.task.labels) > MOST_LABELS
    for table in break_down(runs, traits):
        if table.title == SEEDS_AGREE or (table.shares and has_many):
            continue
        if table.title == "By label" and has_many:
            worst = sorted(table.rows, key=lambda row: float(row[-1]))[:MOST_LABELS]
            yield replace(table, rows=worst, note=f"The {MOST_LABELS} labels with the lowest F1.")
        else:
            yield table


def _add_texts(split: Split, table: Breakdown) -> Breakdown:
    """Return a table of examples with a column of their texts."""
    column = next((name for name in ROW_COLUMNS if name in table.header), None)
    if column is None:
        return table
    place, places = table.header.index(column), {row: n for n, row in enumerate(split.ids.tolist())}
    rows = [[*row, _read(split, places[int(row[place])])] for row in table.rows]
    return replace(table, header=[*table.header, "text"], rows=rows)


def _list_rows_to_check(
    split: Split, found: Predictions, *, has_label: bool
) -> Iterator[Breakdown]:
    """Yield the least confident rows, and those whose label is suspected to be wrong."""
    if not has_label or found.score is None:
        return
    number = {label: idx for idx, label in enumerate(found.labels)}
    target = np.array([number.get(str(label), -1) for label in found.target])
    known = np.flatnonzero(target >= 0)
    suspected = known[find_label_errors(found.score[known], target[known])]
    unsure = np.argsort(found.score.max(1), kind="stable")
    for title, chosen, note in (
        ("Least confident rows", unsure, ROWS),
        (
            "Suspected label errors",
            suspected,
            "The model gives another label at least the probability that rows of that label have "
            "on average (confident learning, Northcutt et al. 2021).",
        ),
    ):
        header = ["row", "right", "predicted", "confidence", "text"]
        yield Breakdown(title, header, _list_rows(split, found, chosen[:SHOWN]), note)


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
    rows = []
    for row in chosen.tolist():
        answers = str(found.target[row]), str(found.prediction[row])
        confidence = f"{found.score[row].max():.2f}"
        rows.append([str(split.ids[row]), *answers, confidence, _read(split, row)])
    return rows


def _read(split: Split, row: int) -> str:
    """Return the texts of an example on one line."""
    return join_texts(split.read_texts(row))


def join_texts(texts: Iterable[str]) -> str:
    return shorten(" / ".join(" ".join(text.split()) for text in texts))


def shorten(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 3]}..."
