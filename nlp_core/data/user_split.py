"""The splits of one's own files: streamed from a store, or questions on passages held in memory.

Questions stand in the JSON of SQuAD, one document that is read whole; so are their splits.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from nlp_core.config.user_data import DataConfig
from nlp_core.data.columns import write_rows
from nlp_core.data.readers.example import Question
from nlp_core.data.readers.records import check_file
from nlp_core.data.readers.squad import fit_question, read_squad
from nlp_core.data.readers.user import read_examples
from nlp_core.data.store import StoredSplit
from nlp_core.data.store_writer import store_file
from nlp_core.data.task import Split, read_split_file
from nlp_core.data.tokenization import LOCATORS, TOKENIZERS
from nlp_core.errors import DataError
from nlp_core.kinds import ANSWERS, SPAN, SPAN_LABELS

Targets = dict[str, list[str]]


def read_user_split(
    path: Path, data: DataConfig, name: str, targets: Targets, pieces: Collection[str] = ()
) -> StoredSplit | Split:
    """Read a file with labels that a model is measured on.

    Args:
        path: the file.
        data: how it is read.
        name: of the split.
        targets: by target what the model was trained to predict.
        pieces: columns that a pretrained encoder cuts into pieces of its own.

    Raises:
        DataError: the file is missing or malformed.
    """
    if not data.kind.has_passages:
        return store_file(path, data, name, pieces)
    return build_question_split(name, read_questions(path, data, targets=targets), data)


def read_questions(
    path: Path, data: DataConfig, *, targets: Targets | None = None, labelled: bool = True
) -> list[Question]:
    """Read the questions of a file.

    Args:
        path: the file.
        data: how it is read.
        targets: what a model was trained to predict; None: what the file has will be.
        labelled: whether the answers are read, and must be there.

    Raises:
        DataError: the file is missing or malformed, or has a question without an answer, which no
            question was in training.
    """
    check_file(path)
    found = read_squad(path, locate=LOCATORS.get(data.tokens), labelled=labelled, unanswerable=True)
    if not found:
        raise DataError(f"{path}: found no questions, expected one at least.")
    has_none = targets is None or targets[ANSWERS] == SPAN_LABELS
    silent = next((item for item in found if item.answers == ()), None)
    if silent is not None and not has_none:
        raise DataError(
            f"{path}: found the question '{silent.key}' without an answer, but every question of "
            "the training file has one, so that none was learnt; train on such questions too, or "
            "leave them out."
        )
    return found


def check_form(path: Path, data: DataConfig) -> None:
    """Refuse a file that is not of the form that is read, as far as its first example shows it.

    Raises:
        DataError: the file is missing or malformed.
    """
    if data.kind.has_passages:
        read_questions(path, data)
    else:
        next(read_examples(path, data), None)


def list_answers(questions: Sequence[Question]) -> Targets:
    """Return what can be learnt of questions: answers alone, or also that there is none."""
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
            f"{path}: found no question whose answer stands in its context{within}, expected one "
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
