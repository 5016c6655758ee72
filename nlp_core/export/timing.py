"""Time the bundles of a cell together with the trained model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nlp_core.config.base import read_mapping
from nlp_core.config.export import ExportConfig
from nlp_core.config.latency import EAGER, TEACHER, LatencyTableConfig
from nlp_core.errors import DataError
from nlp_core.export.bundle import PARITY
from nlp_core.export.eager import TorchSubject
from nlp_core.export.latency import BundleSubject, Plan, Subject, Timing, time_models
from nlp_core.export.program import load_any
from nlp_core.export.real_examples import list_examples, read_examples
from nlp_core.prediction.trained_model import TrainedModel
from reglue_runtime import BundleError

COMPILED = "compiled"


def build_subjects(trained: TrainedModel, *, threads: int, compiled: bool) -> dict[str, Subject]:
    """Return a trained model as the torch subjects `eager` and, if wanted, `compiled`.

    Sets torch's number of threads.
    """
    torch.set_num_threads(threads)
    subjects: dict[str, Subject] = {EAGER: TorchSubject(trained, compiled=False)}
    if compiled:
        subjects[COMPILED] = TorchSubject(trained, compiled=True)
    return subjects


def list_all_examples(trained: TrainedModel, file: Path | None = None) -> Sequence[Any]:
    """Return the real examples of a trained model, as a bundle reads them; see `read_examples`."""
    examples = read_examples(trained, file)
    return list_examples(trained, examples, np.arange(len(examples)))


def time_export(
    export: ExportConfig, folder: Path, config: LatencyTableConfig, teacher: Path | None = None
) -> list[list[Timing]]:
    """Return the timings of each run of a trained model, its bundles and its teacher.

    Args:
        export: the entry of params.yaml.
        folder: its bundles, each in a folder named by its variant.
        config: what to measure; each run draws another order.
        teacher: a bundle that is timed with them, as `teacher`.

    Raises:
        DataError: the cell is not trained, or a bundle is incomplete.
    """
    trained = TrainedModel.open(export.cell, seed=export.seed, task=export.task)
    subjects = build_subjects(trained, threads=config.threads, compiled=config.compiled)
    bundles: dict[str, Path] = {variant: folder / variant for variant in export.variants}
    if teacher is not None:
        bundles[TEACHER] = teacher
    for name, path in bundles.items():
        try:
            bundle = load_any(path, num_threads=config.threads)
        except BundleError as err:
            raise DataError(str(err)) from err
        subjects[name] = BundleSubject(bundle)
    examples = list_all_examples(trained)
    return [
        time_models(subjects, examples, Plan(run, config.sentences, config.batches, config.threads))
        for run in range(1, config.runs + 1)
    ]


def read_parity(folder: Path) -> dict[str, Any]:
    return dict(read_mapping(folder / PARITY))
