"""Examples without labels, on which a bundle of vectors is checked."""

from pathlib import Path

from nlp_core.data.task import Split
from nlp_core.errors import DataError
from nlp_core.export.real_examples import read_examples
from nlp_core.prediction.file_prediction import read_chunks
from nlp_core.prediction.prediction import build_split
from nlp_core.prediction.predictor import Predictor
from nlp_core.prediction.trained_model import TrainedModel


def read_unlabelled(trained: TrainedModel, file: Path | None = None) -> Split:
    """Read the report split of a cell, or the first rows of a file, whose labels are not read.

    Raises:
        ConfigError: a file was given for a cell, or none for another model.
        DataError: the file is missing, malformed or empty.
    """
    if trained.data is None or file is None:
        return read_examples(trained, file)
    for _, examples in read_chunks(Predictor(trained), file):
        return build_split(examples, trained.data, trained.featurizer.targets)
    raise DataError(f"{file}: found no examples, expected one row at least.")
