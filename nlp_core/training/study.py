"""The trials of a search: which values each of them has, its score, and what is left after a kill.

Trials are kept in the SQLite file of Optuna, in the output folder. The sampler of each trial is
seeded from the seed of the search and the trial's number, so that one process draws the same values
whether or not it was killed in between. A trial that a killed process left is resumed.
"""

import json
import logging
import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import optuna
from filelock import FileLock
from optuna.trial import Trial, TrialState

from nlp_core.config.space import DimensionConfig, Outcome, SearchObjective, SpaceConfig
from nlp_core.errors import NlpCoreError, TrainingError, explain_memory
from nlp_core.files import name_database
from nlp_core.training.work import locked

log = logging.getLogger(__name__)

DATABASE = "search.db"
NAME = "search"
Watch = Callable[[int, float], None]
Train = Callable[[dict[str, Any], Path, Watch], float]  # Any: JSON holds anything
EARLY_TRIALS = 5
"""Finished trials before one may be pruned."""
STATES = {
    TrialState.COMPLETE: "finished",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
}


class _Taken(NamedTuple):
    trial: Trial
    values: dict[str, Any]
    folder: Path


@dataclass(frozen=True)
class Search:
    """A search in an output folder, which several processes may share.

    Attributes:
        train: trains a trial with some values in a folder of its own, and returns its score.
        defaults: the values of trial 0; None: drawn as the others.
        seed: of the values.
    """

    train: Train
    space: SpaceConfig
    objective: SearchObjective
    seed: int
    output: Path
    defaults: Mapping[str, Any] | None = None

    def open(self) -> optuna.Study:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        storage = name_database((self.output / DATABASE).resolve())
        self.output.mkdir(parents=True, exist_ok=True)
        with self._lock:
            study = optuna.create_study(
                storage=storage,
                study_name=NAME,
                direction="maximize",
                pruner=optuna.pruners.MedianPruner(n_startup_trials=EARLY_TRIALS),
                load_if_exists=True,
            )
            if self.defaults is not None and not study.trials:
                pairs = self.defaults.items()
                own = {path: _encode(self.space.values[path], value) for path, value in pairs}
                study.enqueue_trial(own)
        return study

    def hold(self) -> AbstractContextManager[None]:
        """Hold the output folder; raises TrainingError if another search does."""
        return locked(self.output / "run", "search")

    def work(self, trials: int) -> None:
        """Run trials until the search has `trials` of them, with those of other processes."""
        study = self.open()
        with ExitStack() as held:
            while (taken := self._take(study, trials, held)) is not None:
                self._run(study, taken)
                held.close()
                shutil.rmtree(taken.folder, ignore_errors=True)

    def list_outcomes(self, study: optuna.Study) -> list[Outcome]:
        """Return the trials that ended."""
        return [
            Outcome(
                trial.number,
                STATES[trial.state],
                {path: _decode(self.space.values[path], v) for path, v in trial.params.items()},
                None if trial.value is None else self.objective.direction * trial.value,
            )
            for trial in study.trials
            if trial.state.is_finished()
        ]

    def find_winner(self, outcomes: list[Outcome]) -> Outcome:
        """Return the finished trial with the best score, the first of equal ones.

        Raises:
            TrainingError: no trial finished.
        """
        finished = [item for item in outcomes if item.state == "finished"]
        if not finished:
            raise TrainingError(
                f"{self.output}: found no trial that finished; the log names the error of each. "
                "Narrow the space."
            )
        return max(finished, key=lambda item: self.objective.direction * (item.score or 0.0))

    def measure_importance(self, study: optuna.Study) -> dict[str, float]:
        """Return the share of each value in the variance of the scores; empty: too few trials."""
        scores = {t.value for t in study.trials if t.state == TrialState.COMPLETE}
        if len(scores) < 2:
            return {}
        evaluator = optuna.importance.FanovaImportanceEvaluator(seed=self.seed)
        found = optuna.importance.get_param_importances(study, evaluator=evaluator)
        return {path: float(share) for path, share in found.items()}

    @property
    def _lock(self) -> FileLock:
        """Held while a trial is taken, by one process at a time."""
        return FileLock(self.output / "lock")

    def _take(self, study: optuna.Study, trials: int, held: ExitStack) -> _Taken | None:
        """Take a trial that a killed process left, or a new one; None: there are enough."""
        with self._lock:
            known = study.get_trials(deepcopy=False)
            for left in known:
                folder = self.output / "trials" / str(left.number)
                if left.state == TrialState.RUNNING and _hold(folder, held):
                    log.info("search resume trial=%d", left.number)
                    return self._suggest(study, left.number, Trial(study, left._trial_id))
            number = sum(trial.state != TrialState.WAITING for trial in known)
            if number >= trials:
                return None
            study.sampler = self._seed_sampler(number)
            trial = study.ask()
            _hold(self.output / "trials" / str(trial.number), held)
            return self._suggest(study, trial.number, trial)

    def _suggest(self, study: optuna.Study, number: int, trial: Trial) -> _Taken:
        study.sampler = self._seed_sampler(number)
        values = {
            path: _decode(item, _suggest(trial, path, item))
            for path, item in self.space.values.items()
        }
        return _Taken(trial, values, self.output / "trials" / str(number))

    def _seed_sampler(self, number: int) -> optuna.samplers.TPESampler:
        stream = np.random.SeedSequence([self.seed, number]).generate_state(1)
        return optuna.samplers.TPESampler(seed=int(stream[0]))

    def _run(self, study: optuna.Study, taken: _Taken) -> None:
        trial = taken.trial
        known = study.get_trials(deepcopy=False)[trial.number].intermediate_values

        def watch(number: int, score: float) -> None:
            if number not in known:
                trial.report(score, number)
            if trial.should_prune():
                raise optuna.TrialPruned

        shown = " ".join(f"{path}={value}" for path, value in taken.values.items())
        log.info("search trial=%d %s", trial.number, shown)
        try:
            with explain_memory():
                score = self.train(taken.values, taken.folder, watch)
        except optuna.TrialPruned:
            study.tell(trial, state=TrialState.PRUNED)
            log.info("search pruned trial=%d", trial.number)
        except NlpCoreError as err:
            study.tell(trial, state=TrialState.FAIL)
            log.warning("search failed trial=%d: %s", trial.number, err)
        else:
            study.tell(trial, score)
            measured = self.objective.direction * score
            shown = f"{self.objective.split} {self.objective.metric}={measured:.2f}"
            log.info("search done trial=%d %s", trial.number, shown)


def _hold(folder: Path, held: ExitStack) -> bool:
    """Hold the folder of a trial; return whether no other process does."""
    try:
        held.enter_context(locked(folder, "trial"))
    except TrainingError:
        return False
    return True


def _suggest(trial: Trial, path: str, item: DimensionConfig) -> Any:  # Any: JSON holds anything
    if item.choices is not None:
        return trial.suggest_categorical(path, item.names)
    assert item.low is not None
    assert item.high is not None
    is_log = item.scale == "log"
    if item.is_whole:
        low, high, step = int(item.low), int(item.high), int(item.step or 1)
        return trial.suggest_int(path, low, high, step=step, log=is_log)
    return trial.suggest_float(path, item.low, item.high, step=item.step, log=is_log)


def _encode(item: DimensionConfig, value: object) -> object:
    return value if item.choices is None else json.dumps(value, sort_keys=True)


def _decode(item: DimensionConfig, value: Any) -> Any:  # Any: JSON holds anything
    return value if item.choices is None else json.loads(value)
