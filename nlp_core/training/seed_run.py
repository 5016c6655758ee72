"""The training of one seed of a run, into a folder of its own."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nlp_core.config.base import HISTORY
from nlp_core.data.scope import OUT_OF_SCOPE
from nlp_core.files import format_line, replacing_folder, write_text
from nlp_core.kinds import LABEL
from nlp_core.models.graph import GraphModel
from nlp_core.models.saving import save_model
from nlp_core.prediction.split_prediction import SplitPredictions, predict
from nlp_core.progress import show_progress
from nlp_core.training.calibration import (
    Calibration,
    check_scope,
    cool_weights,
    find_head,
    fit_calibration,
)
from nlp_core.training.control import RunControl
from nlp_core.training.determinism import seed_everything
from nlp_core.training.loop import Trained, Trainer
from nlp_core.training.processes import Processes
from nlp_core.training.run import FinishedSeed, Run, prepare_tasks
from nlp_core.training.task_run import HONEST, TaskRun


def train_run(
    run: Run,
    seed: int,
    target: Path,
    checkpoint: Path,
    *,
    processes: Processes,
    control: RunControl | None = None,
) -> None:
    """Train one seed into a folder, which appears whole at the end.

    Args:
        seed: of weights, dropout and order.
        target: the folder to make; only the first process makes it.
        checkpoint: from which a killed run resumes.

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
    trained = _train(run, seed, model, tasks, checkpoint, processes, control or RunControl())
    if not processes.is_first:
        return
    with replacing_folder(target) as folder:
        calibration = None
        if run.is_calibrated:
            trained, calibration = _calibrate(tasks[0], model, trained)
        save_model(folder, trained.states[HONEST], featurizers)
        history = "".join(format_line(event) for event in trained.progress.events)
        write_text(folder / HISTORY, history)
        predictions = {item.task.name: _predict_splits(item, model, trained) for item in tasks}
        run.write_results(folder, FinishedSeed(model, trained.progress, predictions, calibration))
    checkpoint.unlink(missing_ok=True)


def build_trainer(
    run: Run,
    seed: int,
    model: GraphModel,
    tasks: Sequence[TaskRun],
    checkpoint: Path,
    processes: Processes,
    control: RunControl,
) -> Trainer:
    trainer: Trainer = (run.trainer or Trainer)(
        model,
        tasks,
        recipe=run.recipe,
        seed=seed,
        checkpoint=checkpoint,
        max_steps=run.max_steps,
        processes=processes,
        control=control,
    )
    return trainer


def _train(
    run: Run,
    seed: int,
    model: GraphModel,
    tasks: list[TaskRun],
    checkpoint: Path,
    processes: Processes,
    control: RunControl,
) -> Trained:
    control = control if processes.is_first else replace(control, board=None)
    trainer = build_trainer(run, seed, model, tasks, checkpoint, processes, control)
    title = f"{run.name} seed {seed}"
    with show_progress(title, trainer.num_steps, shown=processes.is_first) as bar:
        return trainer.run(bar.reach)


class _Calibrated(NamedTuple):
    trained: Trained
    calibration: Calibration | None


def _calibrate(item: TaskRun, model: GraphModel, trained: Trained) -> _Calibrated:
    """Fit the confidence of the honest selection on the split that chose it."""
    found, state = find_head(model), trained.states[HONEST]
    if found is None:
        return _Calibrated(trained, None)
    model.load_state_dict(state)
    task, encoded = item.task, item.splits[item.task.select_split]
    predicted = predict(item.model, encoded, task.targets)
    right = encoded.targets[LABEL]
    assert predicted.score is not None, found
    target = np.asarray(right[np.arange(len(encoded.split))])  # type: ignore[index]
    outside = item.splits.get(f"{task.select_split}{OUT_OF_SCOPE}")
    score = None if outside is None else predict(item.model, outside, task.targets).score
    calibration = fit_calibration(predicted.score, target, score)
    if calibration is None:
        return _Calibrated(trained, None)
    calibration = calibration._replace(out_of_scope=task.out_of_scope)
    cooled = cool_weights(state, found[0], calibration.temperature)
    return _Calibrated(replace(trained, states={**trained.states, HONEST: cooled}), calibration)


def _predict_splits(
    item: TaskRun, model: GraphModel, trained: Trained
) -> dict[str, list[SplitPredictions]]:
    """Return by the way of choosing the epoch the predictions of the splits that it measures."""
    task, predictions = item.task, {}
    for selection in sorted(trained.states):
        model.load_state_dict(trained.states[selection])
        chosen = (task.select_split, *task.report_splits)
        names = dict.fromkeys(chosen if selection == HONEST else chosen[1:])
        predictions[selection] = [
            predict(item.model, item.splits[name], task.targets) for name in names
        ]
    return predictions
