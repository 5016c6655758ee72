"""The user's questions on passages: the JSON of SQuAD, one document that is read whole."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from nlp_core.config.user_data import DataConfig
from nlp_core.data.columns import write_rows
from nlp_core.data.formats.squad import fit_question, read_squad
from nlp_core.data.holdout import draw_held_out
from nlp_core.data.readers.example import Question
from nlp_core.data.readers.records import check_file
from nlp_core.data.task import Split, read_split_file
from nlp_core.data.tokenization import LOCATORS, TOKENIZERS
from nlp_core.errors import DataError
from nlp_core.kinds import ANSWERS, SPAN, SPAN_LABELS

log = logging.getLogger(__name__)

Targets = dict[str, list[str]]


def read_questions(
    path: Path, data: DataConfig, *, targets: Targets | None = None, labelled: bool = True
) -> list[Question]:
    """Read the questions of a file.

    Args:
        targets: what a model was trained to predict; None: it will be trained on this file.
        labelled: whether the answers are read, and must be there.

    Raises:
        DataError: the file is missing or malformed, or has a question without an answer, although
            every question in training had one.
    """
    check_file(path)
    found = read_squad(path, locate=LOCATORS.get(data.tokens), labelled=labelled, unanswerable=True)
    if not found:
        raise DataError(f"{path}: found no questions, expected one at least.")
    has_none = targets is None or targets[ANSWERS] == SPAN_LABELS
    silent = next((item for item in found if item.answers == ()), None)
    if silent is not None and not has_none:
        raise DataError(
            f"{path}: found the question '{silent.key}' without an answer, but the model was "
            "trained only on questions with one; train on such questions too, or leave them out."
        )
    return found


def list_answers(questions: Sequence[Question]) -> Targets:
    """Return the targets of questions: only answers, or also that there is none."""
    has_none = any(not question.answers for question in questions)
    return {ANSWERS: SPAN_LABELS if has_none else SPAN_LABELS[:1]}


def fit_questions(questions: Sequence[Question], data: DataConfig, path: Path) -> list[Question]:
    """Return the questions that something can be learnt from, on passages of `data.max_tokens`.

    Raises:
        DataError: there is none.
    """
    fitted = [fit_question(question, data.max_tokens) for question in questions]
    kept = [question for question in fitted if question is not None]
    if not kept:
        within = "" if data.max_tokens is None else f" within its first {data.max_tokens} tokens"
        raise DataError(
            f"{path}: found no question whose answer is in its context{within}, expected one "
            "at least; nothing can be learnt from it."
        )
    return kept


def build_question_split(name: str, questions: Sequence[Question], data: DataConfig) -> Split:
    """Return questions as a split in memory."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.parquet"
        tokenize = TOKENIZERS.get(data.tokens)
        write_rows(path, SPAN, range(len(questions)), questions, tokenize)
        return read_split_file(path, SPAN, [ANSWERS])


def read_question_splits(
    files: Mapping[str, Path], data: DataConfig, seed: int
) -> tuple[dict[str, Split], Targets]:
    """Return the splits by name, and their targets: answers, or also that there is none.

    Args:
        files: "train", and where they are given "dev" and "test".
        seed: of the passages that are held out where there is no "dev".

    Raises:
        DataError: a file is missing or malformed, or too small.
    """
    path = files["train"]
    train = read_questions(path, data)
    targets = list_answers(train)
    found = {
        name: read_questions(other, data, targets=targets)
        for name, other in files.items()
        if name != "train"
    }
    if "dev" not in found:
        train, found["dev"] = _hold_out_passages(train, path, seed)
    found["train"] = fit_questions(train, data, path)
    if left_out := len(train) - len(found["train"]):
        log.warning("train left out questions without an answer in their context num=%d", left_out)
    splits = {name: build_question_split(name, rows, data) for name, rows in found.items()}
    return splits, targets


def _hold_out_passages(
    questions: list[Question], path: Path, seed: int
) -> tuple[list[Question], list[Question]]:
    """Return the questions without those on a tenth of the passages, and the latter."""
    numbers = sorted({question.passage.number for question in questions})
    dev = {numbers[idx] for idx in np.flatnonzero(draw_held_out(len(numbers), seed))}
    if not 0 < len(dev) < len(numbers):
        raise DataError(
            f"{path}: found one context with questions, expected two at least, one of which is "
            "held out to choose the epoch. Give more of them, or --dev."
        )
    parts: tuple[list[Question], list[Question]] = ([], [])
    for question in questions:
        parts[question.passage.number in dev].append(question)
    log.info("train no --dev, so %d of %d questions are held out", len(parts[1]), len(questions))
    return parts
