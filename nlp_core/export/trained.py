"""A trained model of one task, from a cell's folder or one of `reglue train`, and examples for it.

An export is checked on real examples: those of the split that the cell's table reports, or of a
file of one's own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nlp_core.config.reader import SYMBOLS
from nlp_core.data.store import StoredSplit
from nlp_core.data.task import Examples, Split, Task
from nlp_core.data.user_split import read_user_split
from nlp_core.errors import ConfigError, DataError
from nlp_core.models.features import Featurizer
from nlp_core.models.graph import GraphModel
from nlp_core.training.lesson import CELL
from nlp_core.training.trained_seed import is_cell, open_seed
from nlp_core.training.user_folder import RUN, is_user_folder, open_user_folder
from nlp_core.training.user_run import build_task, list_pieces


@dataclass(frozen=True)
class TrainedModel:
    """A trained model, on one task.

    Attributes:
        name: of the cell, or of the folder.
        model: with its weights.
        featurizer: its vocabularies.
        task: what it predicts, and how that is measured.
        tokenizer: name of what makes tokens of its texts.
        max_tokens: tokens of a text that it reads; None: all.
        examples: real ones.
    """

    name: str
    model: GraphModel
    featurizer: Featurizer
    task: Task
    tokenizer: str
    max_tokens: int | None
    examples: Examples

    @property
    def texts(self) -> list[str]:
        """The columns of the task's texts."""
        return [name.replace("tokens", "text") for name in self.task.kind.tokens]

    def list_examples(self, rows: np.ndarray) -> list[dict[str, Any]]:
        """Return examples as a caller of the exported model gives them: texts where there are any.

        Args:
            rows: which ones.
        """
        if isinstance(self.examples, Split):
            return list(_list_columns(self.examples, self.texts, rows))
        assert isinstance(self.examples, StoredSplit), type(self.examples)
        part = self.examples.subset(self.examples.name, rows)
        columns: dict[str, list[Any]] = {
            name: column.list_rows()
            for name, column in part.texts.items()
            if not part.raw or name.startswith(SYMBOLS)
        }
        if part.raw:
            raw = part.read_raw()
            given = [raw.first] if raw.second is None else [raw.first, raw.second]
            columns |= {name: list(item) for name, item in zip(self.texts, given, strict=True)}
        columns |= {name: column.list_rows() for name, column in part.numbers.items()}
        values = zip(*columns.values(), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in values]


def _list_columns(split: Split, texts: Sequence[str], rows: np.ndarray) -> Iterator[dict[str, Any]]:
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
        for name, given in zip(texts, raw, strict=False):
            if given is not None:
                example[name] = given[row]
        for name, numbers in split.numbers.items():
            (example[name],) = numbers.subset(np.array([row])).list_rows()
        yield example


def read_trained(
    folder: Path,
    *,
    seed: int | None = None,
    task: str | None = None,
    data: Path | None = None,
    plugins: Sequence[Path] = (),
) -> TrainedModel:
    """Read a trained model back.

    Args:
        folder: of a cell, or what `reglue train` made.
        seed: which seed of a cell; None: the first one.
        task: which task of a cell of several.
        data: a file with labels, for a model of `reglue train`.
        plugins: the plug-ins that such a model was trained with; none is run unasked.

    Raises:
        ConfigError: an argument does not fit the folder.
        DataError: the folder is no trained model, or not a whole one.
    """
    if is_user_folder(folder):
        return _read_run(folder, data, plugins)
    if is_cell(folder):
        if data is not None:
            raise ConfigError(f"--data: '{folder}' is a cell, whose own report split is read.")
        return _read_cell(folder, seed, task)
    raise DataError(
        f"{folder}: found neither {CELL} nor {RUN}, expected the folder of a trained cell "
        "(artifacts/cells/TABLE/CELL) or one that `reglue train` made."
    )


def _read_cell(folder: Path, seed: int | None, wanted: str | None) -> TrainedModel:
    found = open_seed(folder, seed, wanted)
    return TrainedModel(
        name=found.cell.name,
        model=found.model,
        featurizer=found.featurizer,
        task=found.task,
        tokenizer=found.described.tokens,
        max_tokens=None,
        examples=found.task.read_split(found.task.report_split),
    )


def _read_run(folder: Path, path: Path | None, plugins: Sequence[Path]) -> TrainedModel:
    if path is None:
        raise ConfigError(
            f"{folder}: found no file of examples; an export is checked on real ones. Give a file "
            "with labels, in the form of the training file, with --data."
        )
    found = open_user_folder(folder, plugins)
    model, featurizer = found.load()
    data, targets = found.data, featurizer.targets
    return TrainedModel(
        name=folder.name,
        model=model,
        featurizer=featurizer,
        task=build_task(data, targets, folder.name),
        tokenizer=data.tokens,
        max_tokens=None if data.kind.has_passages else data.max_tokens,
        examples=read_user_split(path, data, "test", targets, list_pieces(found.plan)),
    )
