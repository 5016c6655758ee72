"""The files that GLUE's site takes: a prediction for each row of its test sets, as one zip.

A trained cell of one task or of several predicts a task; MNLI's cell predicts both of its test sets
and the diagnostic pairs (AX). Nothing is measured: only the site has the labels of the test sets.
"""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from nlp_core.config.base import PROCESSED, check_known, read_mapping
from nlp_core.config.dataset import read_dataset
from nlp_core.config.params import GRID, Params
from nlp_core.data.corpus import CORPUS
from nlp_core.data.task import Task, read_task
from nlp_core.errors import ConfigError, DataError, UsageError, suggest
from nlp_core.files import MANIFEST, replacing
from nlp_core.prediction.split_prediction import predict
from nlp_core.prediction.trained_model import TrainedModel
from nlp_core.report.cell import read_trained
from nlp_core.training.cell import Cell, read_cell

BINARY = ("0", "1")
ENTAILMENT = ("entailment", "not_entailment")
INFERENCE = ("contradiction", "entailment", "neutral")
NUMBER = ()
LOW, HIGH = 0.0, 5.0
PLACES = 3
"""What the site takes for STS-B: a number from 0 to 5, here with three decimals."""

# The earliest that a zip can say: a file's time would make the bytes differ from run to run.
EPOCH = (1980, 1, 1, 0, 0, 0)
READABLE = 0o644 << 16
UNIX = 3


class Sheet(NamedTuple):
    """One file of the site: a split of a task, and the task of the cell that predicts it.

    `answers` are the allowed values; none for a number.
    """

    file: str
    task: str
    split: str
    trained_on: str
    answers: tuple[str, ...]


SHEETS = (
    Sheet("CoLA.tsv", "cola", "test", "cola", BINARY),
    Sheet("SST-2.tsv", "sst2", "test", "sst2", BINARY),
    Sheet("MRPC.tsv", "mrpc", "test", "mrpc", BINARY),
    Sheet("STS-B.tsv", "stsb", "test", "stsb", NUMBER),
    Sheet("QQP.tsv", "qqp", "test", "qqp", BINARY),
    Sheet("MNLI-m.tsv", "mnli", "test_matched", "mnli", INFERENCE),
    Sheet("MNLI-mm.tsv", "mnli", "test_mismatched", "mnli", INFERENCE),
    Sheet("QNLI.tsv", "qnli", "test", "qnli", ENTAILMENT),
    Sheet("RTE.tsv", "rte", "test", "rte", ENTAILMENT),
    Sheet("WNLI.tsv", "wnli", "test", "wnli", BINARY),
    Sheet("AX.tsv", "ax", "test", "mnli", INFERENCE),
)
"""All files of the site, in the order of its table of tasks."""


class Filled(NamedTuple):
    """A file of the zip: where its predictions come from, and the predictions in order."""

    file: str
    origin: str
    answers: list[str]

    @property
    def rows(self) -> int:
        return len(self.answers)


def write_submission(
    path: Path,
    cells: Sequence[str],
    params: Params,
    *,
    tasks: Sequence[str] = (),
    seed: int | None,
    fill: bool,
) -> list[Filled]:
    """Write the zip, whole or not at all, and return what is in it.

    Args:
        cells: experiments of the grid, at most one for each task of GLUE.
        tasks: what multi-task cells predict; none: all of their tasks that GLUE has.
        seed: the seed that predicts; None: the first one of each cell.
        fill: whether a task without a cell gets the same answer on each row.

    Raises:
        ConfigError: a cell is unknown, of no task of GLUE or a second one of its task, has no such
            seed, or a task has no cell and `fill` is not set.
        DataError: a cell is not trained, a task is not processed, or a test set is not among its
            splits.
    """
    chosen = _choose_cells(cells, params, tasks)
    absent = [sheet for sheet in SHEETS if sheet.trained_on not in chosen]
    if absent and not fill:
        raise ConfigError(_describe_absent(absent, chosen))
    pages = {sheet: _fill(sheet) for sheet in absent}
    ready = {task: _check_cell(name, params, seed, task) for task, name in chosen.items()}
    for task, (cell, number) in ready.items():
        trained = TrainedModel.open(cell.folder, seed=number, task=task)
        origin = f"{cell.name}, seed {number}"
        for sheet in (sheet for sheet in SHEETS if sheet.trained_on == task):
            pages[sheet] = Filled(sheet.file, origin, _predict(trained, cell, sheet))
    filled = [pages[sheet] for sheet in SHEETS]
    _write_zip(path, filled)
    return filled


def _choose_cells(names: Sequence[str], params: Params, wanted: Sequence[str]) -> dict[str, str]:
    """Return the cell of each task, in the order of the site's files."""
    tasks = list(dict.fromkeys(sheet.trained_on for sheet in SHEETS))
    chosen: dict[str, str] = {}
    _check_wanted(wanted, names, params, tasks)
    for name in names:
        check_known(f"{GRID}/: experiments", "cell", name, params.experiments, ConfigError)
        data = params.experiments[name].data
        members = [task for task in params.list_tasks(data) if task in tasks]
        if not members:
            raise ConfigError(
                f"'{name}': found a cell of the task {data}, expected one of {', '.join(tasks)}."
            )
        if params.is_group(data) and wanted:
            own, members = members, [task for task in members if task in wanted]
            if not members:
                raise UsageError(
                    f"--task: found none of the tasks of '{name}' ({', '.join(own)}); name one of "
                    "them too, or leave out the cell."
                )
        for task in members:
            if chosen.setdefault(task, name) != name:
                raise ConfigError(
                    f"'{name}': found a second cell of the task {task} in addition to "
                    f"'{chosen[task]}'; name one of them, or with --task what a multi-task cell "
                    "predicts."
                )
    return {task: chosen[task] for task in tasks if task in chosen}


def _check_wanted(
    wanted: Sequence[str], names: Sequence[str], params: Params, tasks: Sequence[str]
) -> None:
    """Raise for a task that no multi-task cell can predict for the site."""
    cells = [params.experiments[name] for name in names if name in params.experiments]
    members = {
        task
        for cell in cells
        if params.is_group(cell.data)
        for task in params.list_tasks(cell.data)
    }
    for task in wanted:
        if task not in members:
            found = f"no cell that was named has the task '{task}' among others"
            raise UsageError(f"--task: {found}. {suggest(task, sorted(members & {*tasks}))}")
        if task not in tasks:
            manifest = Path(PROCESSED) / task / MANIFEST
            is_corpus = manifest.is_file() and read_mapping(manifest)["kind"] == CORPUS
            why = "a corpus, which has no predictions" if is_corpus else "no task of GLUE"
            raise UsageError(f"--task: found '{task}', {why}; expected one of {', '.join(tasks)}.")


def format_answer(answer: str | float, answers: tuple[str, ...]) -> str:
    """Return a prediction in the form of the site: a label unchanged, a number cut to its range.

    Raises:
        DataError: the label is not one of the site's.
    """
    if answers == NUMBER:
        return f"{min(HIGH, max(LOW, float(answer))):.{PLACES}f}"
    if answer not in answers:
        raise DataError(
            f"found the prediction '{answer}', but the site takes {' or '.join(answers)}; the cell "
            "was trained on other labels than those of GLUE."
        )
    return str(answer)


def _describe_absent(absent: list[Sheet], chosen: dict[str, str]) -> str:
    files: dict[str, list[str]] = {}
    for sheet in absent:
        files.setdefault(sheet.trained_on, []).append(sheet.file)
    needed = "; ".join(f"{task} ({', '.join(names)})" for task, names in files.items())
    return (
        f"found cells of {', '.join(chosen) or 'no task'}, but the site takes all {len(SHEETS)} "
        f"files or none. No cell was named for {needed}. Name one for each, or write the same "
        "answer on all rows of these files with --fill majority."
    )


def _check_cell(name: str, params: Params, seed: int | None, task: str) -> tuple[Cell, int]:
    """Return a cell whose training is finished, and its seed; check that its rows are there."""
    seeds = params.experiments[name].seeds
    if seed is not None and seed not in seeds:
        raise UsageError(f"--seed: found {seed}, but the cell '{name}' has the seeds {seeds}.")
    read_trained(name, params.experiments[name], params, Path())
    cell = read_cell(name, params)
    for sheet in SHEETS:
        if sheet.trained_on == task:
            _check_split(sheet, _read_rows_of(sheet, cell))
    return cell, seeds[0] if seed is None else seed


def _read_rows_of(sheet: Sheet, cell: Cell) -> Task:
    own = {task.name: task for task in cell.tasks}
    return own.get(sheet.task) or read_task(Path(PROCESSED) / sheet.task)


def _check_split(sheet: Sheet, task: Task) -> None:
    if not (task.folder / f"{sheet.split}.parquet").is_file():
        raise DataError(
            f"{task.folder}: found no split '{sheet.split}', whose rows {sheet.file} answers; name "
            f"it in sources/{sheet.task}.yaml and run `python -m stages.preprocess {sheet.task}`."
        )


def _predict(trained: TrainedModel, cell: Cell, sheet: Sheet) -> list[str]:
    """Return the answer to each row, in the order of the official file."""
    task = _read_rows_of(sheet, cell)
    split = task.read_split(sheet.split)
    assert split.ids.tolist() == list(range(len(split))), f"{task.folder}: rows out of order"
    featurizer = trained.featurizer
    found = predict(trained.model, featurizer.encode(split), featurizer.targets)
    return [format_answer(answer, sheet.answers) for answer in found.prediction]


def _fill(sheet: Sheet) -> Filled:
    """Give the same answer to each row of a task that no cell was named for."""
    split = read_dataset(sheet.task).task
    assert split is not None, sheet.task
    rows = split.splits[sheet.split].rows
    if sheet.answers == NUMBER:
        answer, why = format_answer((LOW + HIGH) / 2, sheet.answers), "the middle of the range"
    else:
        answer, why = _choose_label(sheet)
    return Filled(sheet.file, f"no cell: {answer}, {why}", [answer] * rows)


def _choose_label(sheet: Sheet) -> tuple[str, str]:
    """Return the most frequent label of the training split, or the first one, and which it is."""
    manifest = Path(PROCESSED) / sheet.trained_on / MANIFEST
    if not manifest.is_file():
        return sheet.answers[0], f"the first label, since {sheet.trained_on} is not processed"
    counts = read_mapping(manifest)["splits"]["train"]["labels"]
    most = max(sheet.answers, key=lambda label: int(counts.get(label, 0)))
    return most, f"the most frequent label of {sheet.trained_on}"


def _write_zip(path: Path, pages: Sequence[Filled]) -> None:
    """Write without times, and uncompressed: compressed bytes differ between versions of zlib."""
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for page in pages:
            lines = [f"{index}\t{answer}\n" for index, answer in enumerate(page.answers)]
            entry = zipfile.ZipInfo(page.file, EPOCH)
            entry.create_system, entry.external_attr = UNIX, READABLE
            archive.writestr(entry, "index\tprediction\n" + "".join(lines))
