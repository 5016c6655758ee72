"""A model as the objectives of training see it: what it says, and what that costs."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from nlp_core.blocks import Block


class Learner(nn.Module):
    """A model whose passes over a batch can be compared and perturbed.

    What a batch and scores are is the model's own affair: those who train hand them on unread.
    """

    def score_and_lose(self, batch: Any) -> tuple[Any, Tensor]:  # Any: see the class
        """Return the scores of a batch, and its loss, a scalar, of one pass."""
        raise NotImplementedError

    def loss(self, batch: Any) -> Tensor:
        """Return the loss of a batch, a scalar."""
        return self.score_and_lose(batch)[1]

    def share_terms(self, batches: Sequence[Any]) -> list[Any]:
        """Return the parts of a step's batch, each with its share of the whole.

        The losses of the parts, and their gradients, then add up to those of the whole batch.
        """
        raise NotImplementedError

    def outputs(self, scores: Any, batch: Any) -> dict[str, Tensor]:
        """Return the logits [N, L] or values [N] of each head that has rows.

        Those of another pass can be compared with them.
        """
        raise NotImplementedError

    def compute_outputs(self, batch: Any) -> dict[str, Tensor]:
        """Return the outputs of a pass over a batch."""
        raise NotImplementedError

    def compute_weights(self, batch: Any) -> dict[str, float]:
        """Return what the mean over each head's rows counts.

        That is the weight of the head, times the share that the batch has in its step.
        """
        raise NotImplementedError

    def find_word_tables(self) -> list[nn.Module]:
        """Return the modules that give the model its word vectors, each once."""
        return find_word_tables(self)


def find_word_tables(model: nn.Module) -> list[nn.Module]:
    """Return the modules that give the blocks of a model their word vectors, each once."""
    tables = [block.find_word_table() for block in model.modules() if isinstance(block, Block)]
    return list({id(table): table for table in tables if table is not None}.values())
