"""The real examples on which an export is checked and timed.

They are those of the split that a cell's table reports, or of a file of the user's.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nlp_core.config.reader import SYMBOLS
from nlp_core.data.task import Split
from nlp_core.data.user_task import read_user_split
from nlp_core.errors import ConfigError
from nlp_core.models.features import list_piece_columns
from nlp_core.prediction.trained_model import TrainedModel


def read_examples(trained: TrainedModel, file: Path | None = None) -> Split:
    """Read real examples for a model.

    Args:
        trained: the model.
        file: with labels, for a model of `reglue train`.

    Raises:
        ConfigError: there is a file, and the model is a cell's; or there is none.
        DataError: the file is missing or malformed.
    """
    if trained.data is None:
        if file is not None:
            raise ConfigError(
                f"--data: '{trained.folder}' is a cell, whose own report split is read."
            )
        return trained.task.read_split(trained.task.report_split)
    if file is None:
        raise ConfigError(
            f"{trained.folder}: found no file of examples; an export is checked on real ones. "
            "Give a file with labels, in the form of the training file, with --data."
        )
    pieces = list_piece_columns(trained.featurizer.plan)
    return read_user_split(file, trained.data, "test", trained.featurizer.targets, pieces)


def list_examples(trained: TrainedModel, split: Split, rows: np.ndarray) -> list[dict[str, Any]]:
    """Return examples as a caller of the exported model gives them: texts where there are any.

    Args:
        trained: the model.
        split: the examples.
        rows: which ones.
    """
    return list(_make_examples(trained.texts, split, rows))


def _make_examples(
    names: Sequence[str], split: Split, rows: np.ndarray
) -> Iterator[dict[str, Any]]:
    raw = [] if split.raw is None else [split.raw.first, split.raw.second]
    for row in rows.tolist():
        if split.passages is not None:
            passage = split.passages.texts[row].as_py()
            yield {"tokens_a": split.texts["tokens_a"].row(row), "text_b": passage}
            continue
        example: dict[str, Any] = {}
        for name, column in split.texts.items():
            if name.startswith(SYMBOLS) or not raw:
                example[name] = column.row(row)
        for name, given in zip(names, raw, strict=False):
            if given is not None:
                example[name] = given[row]
        for name, numbers in split.numbers.items():
            (example[name],) = numbers.subset(np.array([row])).list_rows()
        yield example
