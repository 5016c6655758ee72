"""How well a masked language model tells the hidden pieces of a text."""

import math
from typing import NamedTuple

import torch
from torch.nn import functional

from nlp_core.data.masked_text import MaskedText
from nlp_core.encoders.masked_language_model import MaskedLanguageModel

WINDOWS_A_BATCH = 32
LARGEST_EXPONENT = 700.0


class MaskedScore(NamedTuple):
    """What was measured of a text.

    Attributes:
        perplexity: exp of the mean negative log probability of the hidden pieces.
        accuracy: share of them that had the highest score, in points.
        pieces: how many were hidden.
    """

    perplexity: float
    accuracy: float
    pieces: int


@torch.no_grad()
def measure_masked(
    model: MaskedLanguageModel, text: MaskedText, *, batch_size: int = WINDOWS_A_BATCH
) -> MaskedScore:
    """Return perplexity and accuracy over all hidden pieces of a text.

    Args:
        model: what is measured; it stays in training or evaluation mode as it was.
        text: windows with a fixed masking.
        batch_size: windows at once.
    """
    was_training = model.training
    model.eval()
    loss, num_right, num_pieces = 0.0, 0, 0
    for start in range(0, len(text), batch_size):
        batch, masked = text.batch(range(start, min(start + batch_size, len(text))))
        places, targets = model.read(masked.places, masked.targets)
        hidden = model.encode(*model.read(masked.ids, batch.segments, batch.inside))
        scores = model.score(hidden, places).pieces
        losses = functional.cross_entropy(scores, targets, reduction="none")
        loss += float(losses.double().sum())
        num_right += int((scores.argmax(1) == targets).sum())
        num_pieces += len(targets)
    model.train(was_training)
    assert num_pieces > 0, f"{text.name}: nothing to tell"
    mean = min(loss / num_pieces, LARGEST_EXPONENT)
    return MaskedScore(math.exp(mean), 100.0 * num_right / num_pieces, num_pieces)
