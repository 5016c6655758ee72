"""Weights of labels in the loss by which rare labels count as much as frequent ones."""

from collections import Counter
from dataclasses import replace

from nlp_core.config.model import parse_model
from nlp_core.data.split_column import LabelColumn
from nlp_core.errors import ConfigError
from nlp_core.heads.sentence import ClassificationHead
from nlp_core.kinds import LABEL
from nlp_core.models.plan import plan_model
from nlp_core.training.user_run import UserRun


def balance_labels(run: UserRun) -> UserRun:
    """Return a run whose head weighs each label by N / (L n), with n of the N rows of train.

    Raises:
        ConfigError: no head chooses one label of an example.
    """
    where, task = run.plan.where, run.task
    heads = [head.name for head in run.plan.heads.values() if head.head is ClassificationHead]
    labels = task.read_split("train").targets.get(LABEL)
    if len(heads) != 1 or not isinstance(labels, LabelColumn):
        raise ConfigError(
            f"{where}: --balance: found no head that chooses one label, expected one "
            "(`classification`)."
        )
    counts, share = Counter(labels), len(labels) / len(task.labels)
    weights = [share / counts[label] if counts[label] else 1.0 for label in task.labels]
    head = {**run.model["heads"][heads[0]], "class_weights": [round(item, 6) for item in weights]}
    model = {**run.model, "heads": {**run.model["heads"], heads[0]: head}}
    return replace(run, model=model, plan=plan_model(parse_model(model, where), where=where))
