"""Time the bundles of a cell together with the trained model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from nlp_core.config.export import EAGER, TEACHER
from nlp_core.config.name import name_folder
from nlp_core.config.params import Params
from nlp_core.errors import DataError
from nlp_core.export.eager import TorchSubject
from nlp_core.export.latency import (
    BundleSubject,
    Plan,
    Subject,
    Timing,
    describe_hardware,
    time_models,
)
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


class TimedExport(NamedTuple):
    """What was measured of an export: on what, and for each run all that was timed in turn."""

    hardware: str
    runs: list[list[Timing]]


def time_export(name: str, params: Params, root: Path) -> TimedExport:
    """Time a trained model, its bundles and the bundle of its teacher.

    Args:
        name: a key of exports in the grid; a run draws an order of its own.
        params: params.yaml and grid/.
        root: the project's root.

    Raises:
        DataError: the cell is not trained, or a bundle is incomplete.
    """
    export = params.exports[name]
    config, folder = params.timing[export.table], root / name_folder(export.table, name)
    trained = TrainedModel.open(root / export.cell, seed=export.seed, task=export.task)
    subjects = build_subjects(trained, threads=config.threads, compiled=config.compiled)
    bundles: dict[str, Path] = {variant: folder / variant for variant in export.variants}
    if export.teacher is not None:
        bundles[TEACHER] = folder.with_name(export.teacher) / "float32"
    for way, path in bundles.items():
        try:
            bundle = load_any(path, num_threads=config.threads)
        except BundleError as err:
            raise DataError(str(err)) from err
        subjects[way] = BundleSubject(bundle)
    examples = list_all_examples(trained)
    runs = [
        time_models(subjects, examples, Plan(run, config.sentences, config.batches, config.threads))
        for run in range(1, config.runs + 1)
    ]
    return TimedExport(describe_hardware(config.threads), runs)
