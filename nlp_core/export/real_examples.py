"""The real examples on which an export is checked and timed."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from nlp_core.config.column import SYMBOLS, TOKEN_VECTORS
from nlp_core.data.task import Split
from nlp_core.data.user_task import read_user_split
from nlp_core.errors import ConfigError, UsageError
from nlp_core.kinds import SENTENCES
from nlp_core.models.features import list_piece_columns
from nlp_core.prediction.trained_model import TrainedModel


def read_examples(trained: TrainedModel, file: Path | None = None) -> Split:
    """Read the report split of a cell, or the labelled file for a model of `reglue train`.

    Raises:
        ConfigError: a file was given for a cell, or none for another model.
        DataError: the file is missing or malformed.
    """
    if trained.data is None:
        if file is not None:
            raise UsageError(
                f"--data: '{trained.folder}' is a cell, whose own report split is read."
            )
        return trained.task.read_split(trained.task.report_split)
    if file is None:
        raise ConfigError(
            f"{trained.folder}: found no file of examples, expected real ones. "
            "Give a file with labels, in the form of the training file, with --data."
        )
    pieces = list_piece_columns(trained.featurizer.plan)
    targets = trained.featurizer.targets
    return read_user_split(file, trained.data, targets, pieces, trained.owner)


def list_examples(trained: TrainedModel, split: Split, rows: np.ndarray) -> list[dict[str, Any]]:
    """Return rows as a caller of the exported model gives them: texts where there are any."""
    raw = [] if split.raw is None else [split.raw.first, split.raw.second]
    given = [
        (name, texts) for name, texts in zip(trained.texts, raw, strict=False) if texts is not None
    ]
    return [_make_example(split, row, given) for row in rows.tolist()]


def _make_example(
    split: Split, row: int, given: Sequence[tuple[str, Sequence[str]]]
) -> dict[str, Any]:
    if split.passages is not None:
        passage = split.passages.texts[row].as_py()
        return {"tokens_a": split.texts["tokens_a"].row(row), "text_b": passage}
    columns = split.texts.items()
    example: dict[str, Any] = {
        name: column.row(row)
        for name, column in columns
        if name.startswith(SYMBOLS) or split.raw is None
    }
    example |= {name: texts[row] for name, texts in given}
    for name, numbers in split.numbers.items():
        (values,) = numbers.subset(np.array([row])).list_rows()
        # a column of vectors of one number looks like one of numbers
        is_flat = name.startswith(TOKEN_VECTORS) and numbers.values.shape[1] == 1
        example[name] = [[value] for value in values] if is_flat else values
    if SENTENCES in example:
        ends = np.cumsum(example[SENTENCES]).tolist()
        words = example.pop("tokens")
        example[SENTENCES] = [words[a:b] for a, b in pairwise([0, *ends])]
    return example
