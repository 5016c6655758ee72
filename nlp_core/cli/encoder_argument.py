"""The pretrained encoder that a command takes in place of a trained model."""

import argparse

from nlp_core.encoders.folder import find_encoder
from nlp_core.errors import UsageError
from nlp_core.prediction.file_embedding import build_encoder_model
from nlp_core.prediction.trained_model import TrainedModel


def open_encoder(options: argparse.Namespace) -> TrainedModel:
    """Return the pretrained encoder that the arguments name, to read the texts of `--data`.

    Raises:
        UsageError: a task, a seed or a plug-in is named.
        ConfigError: there is no such encoder.
    """
    for name in ("task", "seed"):
        if getattr(options, name) is not None:
            raise UsageError(f"--{name}: '{options.folder}' is not a trained cell; leave it out.")
    if options.plugin:
        raise UsageError(f"--plugin: '{options.folder}' is a pretrained encoder; leave it out.")
    return build_encoder_model(find_encoder(str(options.folder)), options.data)
