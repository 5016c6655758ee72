"""The training of one trial of a search, and of its winner.

A trial sees the split that chooses the epoch, never the reported one: that one is measured once,
when the winner is trained.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from nlp_core.config.space import Aim
from nlp_core.metrics import is_lower_better
from nlp_core.training.control import RunControl
from nlp_core.training.determinism import seed_everything
from nlp_core.training.processes import Processes
from nlp_core.training.run import Run, prepare_tasks
from nlp_core.training.seed_run import build_trainer, train_run
from nlp_core.training.task_run import HONEST


def find_aim(run: Run) -> Aim:
    metric = run.task.metrics[0]
    return Aim(metric, run.task.select_split, -1.0 if is_lower_better(metric) else 1.0)


def train_winner(run: Run, seed: int, folder: Path, checkpoint: Path) -> None:
    """Train a run into a folder and measure the reported split."""
    train_run(run, seed, folder, checkpoint, processes=Processes())


def train_trial(
    run: Run, seed: int, checkpoint: Path, watch: Callable[[int, float], None]
) -> float:
    """Train a trial and return its score; more is better.

    Args:
        checkpoint: from which a killed trial resumes.
        watch: gets the number of each validation and its score, and may raise to end the trial.

    Raises:
        DataError: the data do not serve the recipe, such as a share of train without a row.
        TrainingError: a loss is not finite.
    """
    seed_everything(seed)
    model, _, tasks = prepare_tasks(run, seed)
    tasks = [replace(item, selections={HONEST: item.selections[HONEST]}) for item in tasks]
    control = RunControl(watch=watch)
    trainer = build_trainer(run, seed, model, tasks, checkpoint, Processes(), control)
    best = trainer.run().progress.best[HONEST].score
    return find_aim(run).sign * best
