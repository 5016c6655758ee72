"""The section of a report on its data: the counts of the kept audits, a line for each task."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from nlp_core.config.dataset import TRAIN
from nlp_core.config.params import Params
from nlp_core.data.audit.record import (
    Shift,
    SplitAudit,
    TaskAudit,
    find_audit,
    read_audit,
)
from nlp_core.data.audit.unit import list_sorts
from nlp_core.kinds import KINDS
from nlp_core.report.cell import match_cells
from nlp_core.report.markdown import render_rows
from nlp_core.report.results import CellResult

SIGNIFICANT = 0.01
TAUGHT = "taught"
"""Stands for a digest: a teacher adds scores to the data, which is audited without them."""
HEADER = ["task", "examples of train", "repeated", "conflicting labels", "in train"]
HEADER += ["share 13 words with train", "shift of labels", "shift of lengths"]
WORDS = (
    "Texts are compared without case, punctuation and whitespace (NFKC). In train: the examples of "
    "a split that are in train or in what we held out of it. Share 13 words: of the examples that "
    "have 13 words or more. A shift is the distance to train from 0 to 1: the total variation of "
    "labels, the Kolmogorov-Smirnov distance of lengths and numbers; * marks p < 0.01 in a "
    "chi-squared or Kolmogorov-Smirnov test."
)
EXPLANATION = (
    f"{WORDS} [docs/data.md](../docs/data.md) explains the words; results/audit/ has every count."
)


def render_audits(cells: Mapping[str, CellResult], params: Params, root: Path) -> list[str]:
    """Return the section on the data of some cells; empty without cells."""
    trained = [*_list_tasks(cells, params)]
    paths = {task: find_audit(task, root) for task in sorted({task for _, task, _ in trained})}
    audits = {task: read_audit(path) for task, path in paths.items() if path.exists()}
    rows = [row for audit in audits.values() for row in list_rows(audit)]
    texts = [render_rows(HEADER, rows), EXPLANATION] if rows else []
    missing = sorted({*paths} - {*audits})
    other = [
        (cell, task)
        for cell, task, digest in trained
        if task in audits and digest not in {audits[task].data, TAUGHT}
    ]
    if missing:
        texts.append(f"Not audited: {', '.join(missing)}; {_advise(missing)}.")
    if other:
        tasks = sorted({task for _, task in other})
        texts.append(
            "These cells were trained on data with another digest than what was audited: "
            f"{', '.join(f'{cell} ({task})' for cell, task in other)}; train them again, or "
            f"{_advise(tasks)}."
        )
    return ["## What the data repeats", *texts] if texts else []


def _advise(tasks: Sequence[str]) -> str:
    return f"run `reglue data audit {' '.join(tasks)} --keep`"


def _list_tasks(cells: Mapping[str, CellResult], params: Params) -> Iterator[tuple[str, str, str]]:
    """Yield each cell and task with the digest of its data; corpora are left out."""
    exports = match_cells(cells, params.exports)
    for name, cell in cells.items():
        export = params.exports.get(exports.get(name, ""))
        experiment = params.experiments.get(Path(export.cell).name if export else name)
        is_taught = experiment is not None and bool(params.list_teachers(experiment.data))
        corpora = {task for task, item in cell.tasks.items() if KINDS.get(item.kind).is_auxiliary}
        for task, digest in cell.data.items():
            if task not in corpora:
                yield name, task, TAUGHT if is_taught else digest


def list_rows(audit: TaskAudit) -> Iterator[list[str]]:
    """Yield what HEADER names of each natural unit of a task."""
    for sort in list_sorts(KINDS.get(audit.kind)):
        splits = audit.units[sort]
        train = splits[TRAIN]
        others = {name: item for name, item in splits.items() if name != TRAIN}
        has_labels = train.labelled > 0
        yield [
            f"{audit.task}, {sort}",
            f"{train.examples:,}",
            f"{train.repeated.normalised:,}",
            f"{train.conflicting.normalised:,}" if has_labels else "",
            _join({name: _describe_overlap(item) for name, item in others.items()}),
            _join({name: _describe_ngrams(item) for name, item in others.items()}),
            _join({name: _describe_shift(item.label_shift) for name, item in others.items()}),
            _join({name: _describe_shift(item.length_shift) for name, item in others.items()}),
        ]


def _join(texts: Mapping[str, str]) -> str:
    return "; ".join(f"{name} {text}" for name, text in texts.items() if text)


def _describe_overlap(split: SplitAudit) -> str:
    assert split.in_train is not None
    found, differing = split.in_train.normalised, split.in_train.other_label
    label = f" ({differing:,} with another label)" if differing else ""
    return f"{found:,} of {split.examples:,}{label}"


def _describe_ngrams(split: SplitAudit) -> str:
    assert split.in_train is not None
    return f"{split.in_train.ngram:,} of {split.in_train.long:,}" if split.in_train.long else ""


def _describe_shift(shift: Shift | None) -> str:
    if shift is None:
        return ""
    return f"{shift.distance:.2f}{'*' if shift.p < SIGNIFICANT else ''}"
