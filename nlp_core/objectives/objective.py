"""What a step trains on: the loss of the model on a batch, or more than that."""

from collections.abc import Callable, Mapping

from torch import Tensor

from nlp_core.models.batch import Batch
from nlp_core.models.graph import GraphModel, find_word_tables
from nlp_core.objectives.perturbation import Noise


class Objective:
    """The loss of the model on a batch, as it is.

    Args:
        model: what is trained; in training mode when a step asks.

    Attributes:
        scale: what makes a loss larger, so that float16 can hold its gradients; the run that set
            it makes them smaller again.
    """

    def __init__(self, model: GraphModel) -> None:
        self.model = model
        self.scale: Callable[[Tensor], Tensor] = lambda loss: loss

    def begin(self, step: int) -> None:
        """Prepare for a step of the run, whichever task it trains, counted from 0."""

    def backward(self, batch: Batch, step: int) -> float:
        """Add the gradients of a batch's loss to those of the weights, and return the loss.

        Args:
            batch: what the step trains on, of the model's own sort.
            step: updates of the weights that were made before, from 0.
        """
        return self.add_gradients(self.model.loss(batch))

    def add_gradients(self, loss: Tensor) -> float:
        """Add the gradients of a loss to those of the weights, and return the loss."""
        self.scale(loss).backward()  # type: ignore[no-untyped-call]
        return float(loss.detach())

    def state(self) -> dict[str, Tensor]:
        """Return what a resumed run needs to go on with the same bits."""
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state` returned."""


class AdversarialObjective(Objective):
    """What all methods share: the word tables, and the noise that perturbations start from."""

    def __init__(self, model: GraphModel, noise: Noise) -> None:
        super().__init__(model)
        self.tables = find_word_tables(model)
        self.noise = noise
