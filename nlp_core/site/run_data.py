"""The data of a model of `reglue train`: sizes, labels, repeats and overlap."""

import re
from collections import Counter
from collections.abc import Mapping
from functools import partial

import numpy as np

from nlp_core.config.dataset import TRAIN
from nlp_core.data.audit.audit import Audit, audit_splits
from nlp_core.data.audit.traits import Traits, list_traits, select_traits
from nlp_core.data.audit.unit import Unit, read_split_rows
from nlp_core.data.task import Split
from nlp_core.data.user_task import UserTask
from nlp_core.report.data_audit import HEADER, WORDS, list_rows
from nlp_core.site.breakdown import ROWS, Breakdown
from nlp_core.site.run_errors import MOST_LABELS, join_texts, shorten

SHOWN_FAULTS = 3


def audit_data(task: UserTask) -> tuple[list[Breakdown], Mapping[str, Traits]]:
    """Return tables of the data, and the traits of each split but train."""
    ordered = sorted(task.splits.items(), key=lambda item: item[0] != TRAIN)
    splits = {name: partial(read_split_rows, split) for name, split in ordered}
    audit = audit_splits(task.name, task.kind, splits, shown=SHOWN_FAULTS)
    traits = list_traits(audit)
    return _describe(task, audit), {name: select_traits(traits, name) for name in splits}


def _describe(task: UserTask, audit: Audit) -> list[Breakdown]:
    sizes = [_measure_lengths(split) for split in task.splits.values()]
    header = ["split", "examples", "words, mean", "words, most"]
    tables = [
        Breakdown("Size", header, sizes),
        _count_labels(task),
        Breakdown("Repeats, overlap and shifts", HEADER, [*list_rows(audit.record)], WORDS),
        _list_faults(audit),
    ]
    return [table for table in tables if table.rows]


def _measure_lengths(split: Split) -> list[str]:
    texts = map(split.read_texts, range(len(split)))
    counts = [sum(len(text.split()) for text in row) for row in texts]
    return [split.name, f"{len(split):,}", f"{np.mean(counts):.1f}", f"{max(counts):,}"]


def _count_labels(task: UserTask) -> Breakdown:
    """Return how often each split has the most frequent labels, or the range of its numbers."""
    if task.kind.is_number:
        rows = []
        for name, split in task.splits.items():
            values = np.asarray(split.target, float)
            shown = (values.mean(), values.std(), values.min(), values.max())
            rows.append([name, *(f"{value:.4g}" for value in shown)])
        return Breakdown("Numbers", ["split", "mean", "sd", "least", "most"], rows)
    if not (task.kind.has_label or task.kind.has_tags or task.kind.has_sentences):
        return Breakdown("Labels", [], [])
    counts = {
        name: Counter(
            label
            for row in read_split_rows(split)
            for labels in row.targets.values()
            for label in labels or ()
        )
        for name, split in task.splits.items()
    }
    common = sorted(counts["train"].items(), key=lambda item: (-item[1], item[0]))[:MOST_LABELS]
    rows = [[label, *(f"{found[label]:,}" for found in counts.values())] for label, _ in common]
    note = f"The {MOST_LABELS} most frequent." if len(task.labels) > MOST_LABELS else ""
    return Breakdown("Labels", ["label", *counts], rows, note)


def _list_faults(audit: Audit) -> Breakdown:
    units, rows = audit.read_units(), []
    for item in audit.findings:
        found = units[item.sort, item.split, item.unit]
        other = units[item.sort, item.other_split, item.other]
        first = [item.split, str(found.place), _show_label(found)]
        second = [item.other_split, str(other.place), _show_label(other)]
        rows.append([item.fault, *first, *second, join_texts(found.texts)])
    header = ["fault", "split", "row", "label", "also in", "row", "label", "text"]
    return Breakdown("Examples of repeats and overlap", header, rows, ROWS)


def _show_label(unit: Unit) -> str:
    """Return the labels of a unit with commas between them; none without labels."""
    parts = re.split("[\x1e\x1f]", unit.label or "")
    return shorten(", ".join(filter(None, parts)))
