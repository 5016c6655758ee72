"""How well a trained model predicts a file with labels."""

from pathlib import Path
from typing import NamedTuple

from nlp_core.config.user_data import DataConfig
from nlp_core.data.user_task import build_user_task, read_user_split
from nlp_core.metrics import measure
from nlp_core.metrics.classification import Confusion, count_confusions
from nlp_core.models.features import Featurizer, list_piece_columns
from nlp_core.models.graph import GraphModel
from nlp_core.prediction.split_prediction import describe_predictions, predict


class FileScores(NamedTuple):
    """How well a model predicts a file with labels.

    Attributes:
        metrics: by name, in points.
        confusion: which label was taken for which; None unless each row has one label.
    """

    metrics: dict[str, float]
    confusion: Confusion | None


def score_file(
    path: Path, data: DataConfig, model: GraphModel, featurizer: Featurizer
) -> FileScores:
    """Predict a file and compare the predictions with its labels.

    Raises:
        DataError: the file is malformed, or has a label that the model does not know.
    """
    targets, pieces = featurizer.targets, list_piece_columns(featurizer.plan)
    split = read_user_split(path, data, "test", targets, pieces)
    task = build_user_task(data, targets, path.stem, {"test": split})
    found = describe_predictions(task, predict(model, featurizer.encode(split), targets))
    confusion = count_confusions(found) if task.kind.has_confusion else None
    return FileScores(measure(task.kind.name, task.metrics, found), confusion)
