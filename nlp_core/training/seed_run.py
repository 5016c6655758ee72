"""The training of one seed of a run, into a folder of its own, and that of a trial of a search.

A trial sees the split that chooses the epoch, never the reported one: that one is measured once,
when the winner is trained.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from nlp_core.config.base import HISTORY
from nlp_core.config.space import SearchObjective
from nlp_core.files import format_line, replacing_folder, write_text
from nlp_core.metrics import HONEST, find_direction
from nlp_core.models.graph import GraphModel
from nlp_core.models.saving import save_model
from nlp_core.prediction.split_prediction import SplitPredictions, predict
from nlp_core.progress import show_progress
from nlp_core.training.calibration import calibrate, check_scope
from nlp_core.training.control import RunControl
from nlp_core.training.determinism import seed_everything
from nlp_core.training.loop import Trainer
from nlp_core.training.processes import Processes
from nlp_core.training.run import FinishedSeed, Run, prepare_tasks
from nlp_core.training.task_run import TaskRun


def train_run(
    run: Run,
    seed: int,
    target: Path,
    checkpoint: Path,
    *,
    processes: Processes | None = None,
    control: RunControl | None = None,
) -> None:
    """Train one seed into a folder, which appears whole at the end.

    Args:
        seed: of weights, dropout and order.
        target: the folder to make; only the first process makes it.
        checkpoint: from which a killed run resumes.
        processes: those that take part in each step; None: only this one.

    Raises:
        ConfigError: the model cannot learn from pairs.
        TrainingError: a loss is not finite.
        TimeLimitError: the time is over; the checkpoint is written.
    """
    for task in run.tasks:
        if task.out_of_scope is not None:
            check_scope(run.plan, task, is_calibrated=run.is_calibrated)
    seed_everything(seed)
    model, featurizers, tasks = prepare_tasks(run, seed)
    processes, control = processes or Processes(), control or RunControl()
    control = control if processes.is_first else replace(control, board=None)
    trainer = _build_trainer(
        run, model, tasks, seed=seed, checkpoint=checkpoint, processes=processes, control=control
    )
    title = f"{run.name} seed {seed}"
    with show_progress(title, trainer.num_steps, shown=processes.is_first) as bar:
        trained = trainer.run(bar.reach)
    if not processes.is_first:
        return
    with replacing_folder(target) as folder:
        states = {**trained.states}
        calibration = calibrate(tasks[0], model, states) if run.is_calibrated else None
        save_model(folder, states[HONEST], featurizers)
        history = "".join(format_line(event) for event in trained.progress.events)
        write_text(folder / HISTORY, history)
        predictions = {item.task.name: _predict_splits(item, model, states) for item in tasks}
        run.write_results(folder, FinishedSeed(model, trained.progress, predictions, calibration))
    checkpoint.unlink(missing_ok=True)


def _build_trainer(
    run: Run,
    model: GraphModel,
    tasks: list[TaskRun],
    **more: Any,  # Any: further arguments of Trainer
) -> Trainer:
    build = run.trainer or Trainer
    trainer: Trainer = build(model, tasks, recipe=run.recipe, max_steps=run.max_steps, **more)
    return trainer


def _predict_splits(
    item: TaskRun, model: GraphModel, states: Mapping[str, Mapping[str, Tensor]]
) -> dict[str, list[SplitPredictions]]:
    """Return by the way of choosing the epoch the predictions of the splits that it measures."""
    task, predictions = item.task, {}
    for selection in sorted(states):
        model.load_state_dict(states[selection])
        chosen = (task.select_split, *task.report_splits)
        names = dict.fromkeys(chosen if selection == HONEST else chosen[1:])
        predictions[selection] = [
            predict(item.model, item.splits[name], task.targets) for name in names
        ]
    return predictions


def find_objective(run: Run) -> SearchObjective:
    metric = run.task.metrics[0]
    return SearchObjective(metric, run.task.select_split, find_direction(metric))


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
    trainer = _build_trainer(run, model, tasks, seed=seed, checkpoint=checkpoint, control=control)
    best = trainer.run().progress.best[HONEST].score
    return find_objective(run).direction * best
