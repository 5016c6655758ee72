"""What the committed predictions of a table say: which differences are real, and what is wrong."""

import gc
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from joblib import cpu_count  # of this process and its container, not of the machine

from nlp_core.data.audit.traits import Traits, find_traits, read_traits
from nlp_core.kinds import KINDS
from nlp_core.metrics.base import list_types
from nlp_core.report.comparison import Comparison
from nlp_core.report.examples import Runs, find_examples, read_all_runs
from nlp_core.report.significance import ColumnFinding, compare_rows
from nlp_core.site.breakdown import (
    Breakdown,
    break_down_labels,
    break_down_numbers,
    break_down_ranking,
    break_down_retrieval,
)
from nlp_core.site.slices import slice_scores
from nlp_core.site.tag_breakdown import break_down_tags


class ErrorSection(NamedTuple):
    """Where a cell is wrong in one task."""

    title: str
    tables: list[Breakdown]


class Review(NamedTuple):
    """What the predictions of a table's cells say; `errors` are by cell."""

    findings: list[ColumnFinding]
    errors: dict[str, list[ErrorSection]]


def start_reviews(tables: Mapping[str, Comparison], root: Path) -> dict[str, Future[Review]]:
    """Review each table in processes of its own, as many at once as there are cores."""
    ordered = sorted(tables, key=lambda name: _count_bytes(name, root), reverse=True)
    pool = ProcessPoolExecutor(
        min(cpu_count(), len(ordered)) or 1,
        get_context("spawn"),  # not forked: torch and Arrow have threads
        gc.disable,  # it would visit millions of short lists again and again
    )
    found = {name: pool.submit(_review, tables[name], root) for name in ordered}
    pool.shutdown(wait=False)
    return found


def _count_bytes(table: str, root: Path) -> int:
    """Return how large a table's predictions are: the largest go first, so no core ends late."""
    folder = find_examples(table, "cell", root).parent
    return sum(path.stat().st_size for path in folder.glob("*.parquet"))


def _review(comparison: Comparison, root: Path) -> Review:
    runs = read_all_runs(comparison.results.table, root)
    errors = {cell: list_errors(found, root) for cell, found in runs.items()}
    return Review(compare_rows(comparison, runs), errors)


def list_errors(found: Sequence[Runs], root: Path) -> list[ErrorSection]:
    """Return where a cell's predictions are wrong, task by task.

    Only those of the first reported split are shown, and of epochs that were chosen honestly.
    Scores are sliced if the traits of the task's examples are kept.
    """
    honest = [runs for runs in found if runs.predictions and not runs.suffix]
    chosen = [runs for runs in honest if runs.split == runs.task.report_split]
    sections = []
    for runs in chosen:
        task = "" if len(chosen) == 1 else f"{runs.prefix.rstrip('.')}, "
        path = find_traits(runs.name, root)
        traits = read_traits(path, runs.split) if path.exists() else None
        tables = [table for table in break_down(runs, traits) if table.rows]
        sections.append(ErrorSection(f"{task}split {runs.split}", tables))
    return sections


def break_down(runs: Runs, traits: Traits | None = None) -> list[Breakdown]:
    """Return the tables that fit the kind of a task."""
    kind = KINDS.get(runs.task.kind)
    slicer = partial(slice_scores, traits, kind.unit)
    if kind.is_searched:
        return break_down_retrieval(runs, slicer)
    if kind.is_grouped:
        return break_down_ranking(runs, slicer)
    # tags without types, such as parts of speech, mark no entity that could be wrong
    if kind.has_tags and (len(kind.targets) > 1 or list_types(runs.task.labels)):
        return break_down_tags(runs, slicer)
    return break_down_numbers(runs, slicer) if kind.is_number else break_down_labels(runs, slicer)
