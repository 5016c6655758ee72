"""Vectors of texts: what a layer of a trained model, or a bare encoder, makes of a file."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np

from nlp_core.config.column import TEXTS
from nlp_core.data.guess import guess_texts
from nlp_core.data.readers.records import FileRecord
from nlp_core.data.user_task import build_user_task
from nlp_core.errors import DataError, UsageError
from nlp_core.files import format_cells, replacing
from nlp_core.kinds import CLASSIFICATION
from nlp_core.prediction.file_prediction import DIGITS, read_chunks, refuse_taken, show_rows
from nlp_core.prediction.predictor import Predictor
from nlp_core.prediction.retriever import build_on_encoder
from nlp_core.prediction.trained_model import TrainedModel

EMBEDDING = "embedding"
POOLS = ("mean", "first", "max")
"""The layers above a bare encoder, the usual one first."""
FORMS = (".npy", ".jsonl")


def build_encoder_model(folder: Path, source: Path) -> TrainedModel:
    """Return a bare encoder as a model whose layers are `encoder`, `mean`, `first` and `max`."""
    pools = [
        {"name": name, "block": "pooling", "inputs": ["encoder"], "pool": name} for name in POOLS
    ]
    joined = {"name": "all", "block": "concat", "inputs": [*POOLS]}
    # a model needs a head; this one is never asked
    heads = {"none": {"head": "classification", "inputs": ["all"]}}
    model, featurizer = build_on_encoder(folder, CLASSIFICATION, [TEXTS], [*pools, joined], heads)
    data = guess_texts(source)
    task = build_user_task(data, featurizer.targets, folder.name, {})
    return TrainedModel(folder, folder.name, model, featurizer, task, data)


def embed_file(
    predictor: Predictor, source: Path, target: Path, layer: str | None = None
) -> tuple[int, int]:
    """Write a layer's vectors of each row of a file; return the number of rows and the width.

    Args:
        source: a file of texts; labels are not read.
        target: .npy gets a matrix, float32 [rows, D]; .jsonl an object for each row, with its own
            columns and `embedding`: one vector, or a list of them from a layer of sequences.
        layer: see `Predictor.find_layer`.

    Raises:
        ConfigError: the target has another ending, or cannot hold what the layer has.
        DataError: the source is malformed, empty, or has a column `embedding`.
    """
    if target.suffix not in FORMS:
        raise UsageError(f"{target}: expected a name that ends in {' or '.join(FORMS)}.")
    layer = predictor.find_layer(layer)
    write = _write_matrix if target.suffix == ".npy" else _write_lines
    with show_rows(predictor, source) as bar, replacing(target) as temporary:
        number, width = write(_embed_rows(predictor, source, layer, bar.advance), temporary)
        if not number:
            raise DataError(f"{source}: found nothing to embed, expected one row at least.")
    return number, width


def _embed_rows(
    predictor: Predictor, source: Path, layer: str, advance: Callable[[float], None]
) -> Iterator[tuple[FileRecord, np.ndarray]]:
    for records, examples in read_chunks(predictor, source):
        vectors = predictor.embed_examples(examples, layer, advance)
        for record, value in zip(records, vectors, strict=True):
            refuse_taken([EMBEDDING], record, source)
            yield record, value


def _write_lines(rows: Iterator[tuple[FileRecord, np.ndarray]], target: Path) -> tuple[int, int]:
    number, width = 0, 0
    with target.open("w", encoding="utf-8", newline="") as file:
        for record, value in rows:
            number, width = number + 1, value.shape[-1]
            row = {**record.cells, EMBEDDING: _round(value.tolist())}
            file.write(format_cells(row) + "\n")
    return number, width


def _write_matrix(rows: Iterator[tuple[FileRecord, np.ndarray]], target: Path) -> tuple[int, int]:
    number, width = 0, 0
    # the header has the number of rows, which is known at the end
    with TemporaryFile(dir=target.parent) as body, target.open("wb") as file:
        for _, value in rows:
            if value.ndim > 1:
                raise UsageError(
                    "embed: found a layer that has a vector for each place of a text, expected one "
                    "that has one for the whole; write .jsonl, or name another one with --layer."
                )
            number, width = number + 1, len(value)
            body.write(value.astype("<f4").tobytes())
        header = {"descr": "<f4", "fortran_order": False, "shape": (number, width)}
        np.lib.format.write_array_header_1_0(file, header)
        body.seek(0)
        shutil.copyfileobj(body, file)
    return number, width


def _round(value: float | list[Any]) -> float | list[Any]:  # Any: numbers, or lists of them
    if isinstance(value, list):
        return [_round(item) for item in value]
    return float(f"{value:.{DIGITS}g}")
