"""An encoder with its heads of pre-training, as objectives train it."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from nlp_core.data.masking import Masked
from nlp_core.data.window import WindowBatch
from nlp_core.encoders.masked_language_model import MaskedLanguageModel, PretrainingScores
from nlp_core.models.learner import Learner

PIECE, PAIR = "piece", "pair"


@dataclass(frozen=True)
class MaskedPart:
    """Some windows of a step's batch, where the weights are.

    Attributes:
        ids: what the model reads, [B, L].
        segments: of each piece, [B, L].
        inside: False at padding, [B, L].
        places: the masked places of the flat part, [M].
        targets: the pieces that stood there, [M].
        answers: what is true of the segments of each window, [B].
        num_pieces: masked pieces of the whole batch.
        num_windows: windows of the whole batch.
    """

    ids: Tensor
    segments: Tensor
    inside: Tensor
    places: Tensor
    targets: Tensor
    answers: Tensor
    num_pieces: int
    num_windows: int


class Seen(NamedTuple):
    """What a pass over a part came to; sums over its masked pieces and its pairs."""

    loss: float
    pieces: int
    right: int
    pair_loss: float
    pairs: int
    pairs_right: int


class MaskedLearner(Learner):
    """An encoder that tells masked pieces, and what is asked of pairs where something is.

    The loss of a part is its share in the mean over all masked pieces of the batch, plus its share
    in the mean over all pairs.

    Args:
        model: encoder and heads; while the encoder is not in training mode, the heads learn alone.

    Attributes:
        seen: the passes that asked for a loss, one after the other, until somebody clears it.
    """

    def __init__(self, model: MaskedLanguageModel) -> None:
        super().__init__()
        self.model = model
        self.seen: list[Seen] = []

    def forward(self, part: MaskedPart) -> PretrainingScores:
        """Return the scores at the masked places, and those of the pairs."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.model.encoder.training):
            hidden = self.model.encode(part.ids, part.segments, part.inside)
        return self.model.score(hidden, part.places)

    def score_and_lose(self, part: MaskedPart) -> tuple[PretrainingScores, Tensor]:
        """Return the scores of a part, and its loss, of one pass."""
        scores: PretrainingScores = self(part)
        total = functional.cross_entropy(scores.pieces, part.targets, reduction="sum")
        right = int((scores.pieces.argmax(1) == part.targets).sum())
        seen = Seen(float(total.detach()), len(part.targets), right, 0.0, 0, 0)
        loss = total / max(part.num_pieces, 1)
        if scores.answers is not None:
            pair_total = functional.cross_entropy(scores.answers, part.answers, reduction="sum")
            seen = seen._replace(
                pair_loss=float(pair_total.detach()),
                pairs=len(part.answers),
                pairs_right=int((scores.answers.argmax(1) == part.answers).sum()),
            )
            loss = loss + pair_total / part.num_windows
        self.seen.append(seen)
        return scores, loss

    def outputs(self, scores: PretrainingScores, part: MaskedPart) -> dict[str, Tensor]:
        """Return the logits of the masked pieces [M, V] and of the pairs [B, 2]."""
        found = {PIECE: scores.pieces} if len(part.places) else {}
        return found if scores.answers is None else found | {PAIR: scores.answers}

    def compute_outputs(self, part: MaskedPart) -> dict[str, Tensor]:
        """Return the outputs of a pass over a part."""
        return self.outputs(self(part), part)

    def compute_weights(self, part: MaskedPart) -> dict[str, float]:
        """Return the shares of the part in the masked pieces and in the pairs of the batch."""
        return {
            PIECE: len(part.places) / max(part.num_pieces, 1),
            PAIR: len(part.ids) / part.num_windows,
        }

    def find_word_tables(self) -> list[nn.Module]:
        """Return the encoder's table of embeddings.

        The scores of the pieces read its weights, not its output, and so are not perturbed.
        """
        return [self.model.encoder.get_input_embeddings()]


def cut_part(
    model: MaskedLanguageModel, batch: WindowBatch, masked: Masked, rows: np.ndarray
) -> MaskedPart:
    """Return some successive windows of a batch.

    Args:
        model: what is to read them.
        batch: the windows.
        masked: what is hidden in them.
        rows: numbers of the windows, sorted.
    """
    width = batch.ids.shape[1]
    begin, end = np.searchsorted(masked.places, [rows[0] * width, (rows[-1] + 1) * width])
    ids, segments, inside = model.read(masked.ids[rows], batch.segments[rows], batch.inside[rows])
    places, targets, answers = model.read(
        masked.places[begin:end] - rows[0] * width, masked.targets[begin:end], batch.answers[rows]
    )
    return MaskedPart(
        ids=ids,
        segments=segments,
        inside=inside,
        places=places,
        targets=targets,
        answers=answers,
        num_pieces=len(masked.targets),
        num_windows=len(batch.ids),
    )
