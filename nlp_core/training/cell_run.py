"""Train a cell: every seed of an experiment, resumable, into one folder.

A finished seed is kept in a work folder whose name is the digest of all that the cell depends on.
So a killed cell resumes at its seed, and within the seed at the last checkpoint; a cell that is
given one seed more trains only that one. The cell's own folder appears whole, at the end.
"""

import logging
import shutil
from functools import partial
from pathlib import Path

from nlp_core.config.base import CELL, SEED
from nlp_core.files import replacing_folder, write_json
from nlp_core.training.cell import Cell, describe_cell
from nlp_core.training.control import RunControl
from nlp_core.training.processes import Processes, find_processes
from nlp_core.training.seed_run import train_run
from nlp_core.training.work import join_training, remove_others, train_once

log = logging.getLogger(__name__)


def train_cell(cell: Cell, control: RunControl | None = None) -> Path:
    """Train all seeds of a cell and return its folder.

    Args:
        control: time limit, profile and curves.

    Raises:
        TrainingError: a loss is not finite, or another process trains this cell.
        TimeLimitError: the time is over; finished seeds and the checkpoint are kept.
    """
    place = f"{cell.experiment.table}/{cell.name}"
    work = Path("artifacts/work") / place / cell.key[:16]
    target = cell.folder
    with join_training(work, "cell") as processes:
        finished = {
            seed: train_seed(
                cell, seed, work, processes, notes=Path("runs") / place, control=control
            )
            for seed in cell.experiment.seeds
        }
        if not processes.is_first:
            return target
        with replacing_folder(target) as folder:
            for seed, done in finished.items():
                shutil.copytree(done, folder / f"seed-{seed}")
            write_json(folder / CELL, describe_cell(cell, finished))
        remove_others(work)
    log.info("finetune done cell=%s seeds=%s", cell.name, cell.experiment.seeds)
    return target


def train_seed(
    cell: Cell,
    seed: int,
    work: Path,
    processes: Processes | None = None,
    *,
    notes: Path | None = None,
    control: RunControl | None = None,
) -> Path:
    """Train one seed unless it is finished, and return the folder that holds it.

    Args:
        work: folder of finished seeds and of checkpoints, from which a killed run resumes.
        processes: those that take part in each step; None: those of `find_processes`.
        notes: folder for the times of the run; None: they are not kept.
        control: time limit, profile and curves.
    """
    processes = processes or find_processes()
    done = work / cell.name_seed(seed)
    checkpoint = work / f"{done.name}.safetensors"
    train = partial(train_run, cell, seed, done, checkpoint, processes=processes, control=control)
    if not train_once(train, done, checkpoint, processes, notes and notes / f"{SEED}{seed}.json"):
        log.info("finetune kept cell=%s seed=%d", cell.name, seed)
    return done
