"""The epochs of an encoder that fit into a time."""

import math
from collections.abc import Collection
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

from nlp_core.config.model import parse_model
from nlp_core.config.user_data import DataConfig, TrainingConfig
from nlp_core.data.readers.user import read_examples
from nlp_core.models.plan import plan_model

MINUTES = 8.0
"""What training of an encoder may take."""
PIECES_A_SECOND = 500
"""Word pieces that a small encoder trains on in a second, on one core of a server."""
SHARDS, GAIN, LEAST_PIECES = 2, 1.4, 500
"""Shards of a batch for two processes, how much faster these are taken to train, and the least
pieces of a batch that they share: the exchange of gradients takes as long as 200 pieces."""
PASSES, LENGTHS, SAVED = 1.5, (96, 64, 48), 0.1
"""Passes over the rows that there must be time for, the lengths in pieces that texts are cut to for
it, and the share of the pieces that a cut must save. The topic of a text is mostly clear from its
beginning."""
PIECES_A_WORD = 1.3
SAMPLE = 1000
"""Rows that are looked at."""
CONTEXT_WORDS = 200
"""Words of a question and its context, about."""


def fit_time(
    content: dict[str, Any],  # Any: JSON
    path: Path,
    data: DataConfig,
    rows: int,
    *,
    minutes: float,
    given: Collection[str],
) -> None:
    """Set the epochs that fit into the time, of the last one perhaps only some steps.

    Where time is short, two processes share each batch, and long texts are cut if the label of a
    whole text is learnt.

    Args:
        given: paths of values that the user has set, which stay.

    Raises:
        ConfigError: one of them is wrong.
    """
    config = parse_model(content, str(path))
    plan = plan_model(config, where=str(path))
    recipe = config.training or TrainingConfig()
    layer = next((one for one in content["layers"] if "max_length" in one), None)
    if layer is None:  # --set replaced the encoder
        return
    training = content["training"] = content["training"] or {}
    sizes, name = _count_pieces(path, data), layer["name"]
    is_whole = any(head.head.whole for head in plan.heads.values())
    can_share = not (is_whole or recipe.few_shot or recipe.accumulate)
    can_share = can_share and ("training.shards" not in given or recipe.shards is not None)
    is_cut = data.kind.has_label and not data.kind.has_tags
    is_cut = is_cut and f"layers.{name}.max_length" not in given

    def fit(length: int) -> tuple[float, float, bool]:
        """Return a row's pieces, the passes there is time for, and whether processes share them."""
        pieces = fmean(sum(min(size, length) for size in row) for row in sizes)
        passes = minutes * 60 * PIECES_A_SECOND / (rows * pieces)
        is_shared = can_share and passes < recipe.epochs
        is_shared = is_shared and recipe.batch_size * pieces >= LEAST_PIECES
        return pieces, passes * GAIN if is_shared else passes, is_shared

    pieces, passes, is_shared = fit(layer["max_length"])
    for length in LENGTHS if is_cut else ():
        fewer, more, is_also = fit(length)
        if passes < PASSES and length < layer["max_length"] and fewer < (1 - SAVED) * pieces:
            layer["max_length"] = length
            pieces, passes, is_shared = fewer, more, is_also
    if is_shared:
        training["shards"] = recipe.shards or SHARDS
    if passes < recipe.epochs:
        training["epochs"] = math.ceil(passes)
        training["max_steps"] = max(int(passes * rows / recipe.batch_size), 1)


def _count_pieces(path: Path, data: DataConfig) -> list[list[float]]:
    """Return about how many word pieces each text of the first rows has."""
    if data.kind.has_passages:
        return [[PIECES_A_WORD * CONTEXT_WORDS + 2]]
    first = islice(read_examples(path, data, labelled=False), SAMPLE)
    return [[PIECES_A_WORD * len(text) + 2 for text in example.texts] for example in first]
