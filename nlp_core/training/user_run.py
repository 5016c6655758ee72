"""Train a model on the user's files, into a folder that holds all that prediction needs.

The folder appears whole, at the end. The checkpoint of a killed run is kept in `<folder>.work`,
under a digest of all that the weights depend on, and the same call resumes from it.
"""

import logging
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from nlp_core.config.base import read_mapping
from nlp_core.config.model import format_model
from nlp_core.files import check_replaceable, digest_json, digest_path, write_json, write_text
from nlp_core.metrics import HONEST
from nlp_core.models.features import list_piece_columns
from nlp_core.models.plugin import Plugin
from nlp_core.prediction.split_prediction import measure_splits, write_predictions
from nlp_core.prediction.trained_folder import (
    CALIBRATION,
    FORMAT_VERSION,
    MODEL,
    PREDICTIONS,
    RUN,
    VECTORS,
)
from nlp_core.training.control import RunControl
from nlp_core.training.determinism import describe_machine
from nlp_core.training.run import FinishedSeed, Run
from nlp_core.training.seed_run import train_run
from nlp_core.training.start import digest_init
from nlp_core.training.work import join_training

log = logging.getLogger(__name__)

METRICS = "metrics.json"


def check_output(folder: Path, *, force: bool) -> None:
    """Raise ConfigError if the folder holds something that training must not replace."""
    check_replaceable(folder, marker=RUN, name="trained model", option="-o", force=force)


@dataclass(frozen=True, kw_only=True)
class UserRun(Run):
    """A model to train on the user's files.

    Attributes:
        model: the content of the model file, as it will be saved; it has a `data` section.
        files: "train", and where they are given "dev", which chooses the epoch (else a part of
            train is held out), and "test", which is measured once, at the end.
        vectors: folder of what words and texts are read with; None: the model keeps all of that.
        seed: of weights, order and, without `cut`, the part that is held out.
        cut: how rows were held out (`Cut`), if not by the seed.
    """

    model: dict[str, Any]
    files: dict[str, Path]
    output: Path
    vectors: Path | None
    plugins: list[Plugin]
    seed: int
    cut: Sequence[int | None] | None = None

    @property
    def key(self) -> str:
        """Digest of what the weights depend on."""
        is_given = self.vectors is not None and self.start is None
        files = {name: digest_path(path) for name, path in self.files.items() if name != "test"}
        return digest_json(
            {
                "model": self.model,
                "files": files,
                "vectors": digest_init(self.init) if is_given else None,
                "plugins": [plugin.sha256 for plugin in self.plugins],
                "seed": self.seed,
                "machine": describe_machine(),
            }
            | ({"start": self.start.digest(self.seed)} if self.start else {})
            | ({"cut": self.cut} if self.cut else {})
        )

    def write_results(self, folder: Path, finished: FinishedSeed) -> None:
        """Write metrics.json, and what the model is opened with: run.json last."""
        write_text(folder / MODEL, format_model(self.model))
        if self.vectors is not None and not list_piece_columns(self.plan):
            (folder / VECTORS).mkdir()
            for table, ending in product(self.plan.vector_tables, ("safetensors", "words.txt")):
                name = f"{table}.{ending}"
                try:
                    os.link(self.vectors / name, folder / VECTORS / name)
                except OSError:  # a file system without links, or another one
                    shutil.copyfile(self.vectors / name, folder / VECTORS / name)
        predictions = finished.predictions[self.task.name][HONEST]
        calibration = finished.calibration
        least = None if calibration is None else calibration.abstain_below
        metrics = measure_splits(self.task, predictions, least if self.task.out_of_scope else None)
        inside = [item for item in predictions if item.split.name in metrics]
        write_predictions(folder / PREDICTIONS, self.task, {HONEST: inside})
        if calibration is not None:
            write_json(folder / CALIBRATION, calibration.describe())
        best = finished.progress.best[HONEST].epoch
        note = {"best_epoch": best, "metrics": metrics, "parameters": finished.parameters}
        write_json(folder / METRICS, note)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        write_json(
            folder / RUN,
            {
                "format": FORMAT_VERSION,
                "digests": {
                    path.relative_to(folder).as_posix(): digest_path(path) for path in files
                },
                "kind": self.task.kind.name,
                "targets": self.task.targets,
                "plugins": [plugin._asdict() for plugin in self.plugins],
                "seed": self.seed,
                "key": self.key,
                "files": {name: digest_path(path) for name, path in self.files.items()},
                "fingerprint": describe_machine(),
                **({"start": self.start.digest(self.seed)} if self.start else {}),
            },
        )


def train_user_run(run: UserRun, control: RunControl | None = None) -> dict[str, Any]:
    """Train, and return the best epoch and the metrics of each split that was measured.

    Of several processes, the first one returns them, and the others return nothing.

    Args:
        control: time limit, profile and curves.

    Raises:
        TrainingError: a loss is not finite, or another process trains into the folder.
        TimeLimitError: the time is over; the checkpoint is kept.
    """
    work = run.output.with_name(f"{run.output.name}.work")
    checkpoint = work / f"{run.key[:16]}.safetensors"
    with join_training(work, "model") as processes:
        if processes.is_first:
            _clear_work(work, checkpoint)
        processes.wait()
        try:
            train_run(run, run.seed, run.output, checkpoint, processes=processes, control=control)
        finally:
            if processes.is_first and not list(work.glob("*.safetensors")):
                shutil.rmtree(work, ignore_errors=True)
    if not processes.is_first:
        return {}
    found = read_mapping(run.output / METRICS)
    # in the order of the task, which a file does not keep
    metrics = {
        split: {name: item[name] for name in run.task.metrics} | item
        for split, item in found["metrics"].items()
    }
    return found | {"metrics": metrics}


def _clear_work(work: Path, checkpoint: Path) -> None:
    """Remove the checkpoints of other settings."""
    for other in work.glob("*.safetensors"):
        if other != checkpoint:
            log.info("train start afresh: the run that was killed here had other settings")
            other.unlink()
    if checkpoint.exists():
        log.info("train go on from the checkpoint of the run that was killed here")
