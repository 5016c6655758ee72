"""Optimisers of torch and of others, by name, and averages of the weights that they find."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from nlp_core.config.base import ClosedModel, Count, NonNegative, Positive, Share, Whole

OptimizerName = Literal[
    "sgd",
    "adam",
    "adamw",
    "adamax",
    "lamb",
    "radam",
    "nadam",
    "adagrad",
    "adafactor",
    "lion",
    "adamw_schedule_free",
    "rmsprop",
    "adadelta",
    "asgd",
    "rprop",
    "adabelief",
    "madgrad",
]
_ADAMS = ("adam", "adamw", "lamb", "radam", "nadam", "adamw_schedule_free", "adabelief")
OPTIONS: dict[str, tuple[str, ...]] = {
    "nesterov": ("sgd",),
    "eps": (*_ADAMS, "adagrad", "rmsprop", "adadelta", "madgrad"),
    "first_decay": (*_ADAMS, "adamax", "lion"),
    "second_decay": (*_ADAMS, "lion"),
    "decoupled": ("radam", "nadam"),
}
"""The optimisers that have an option; any of them has an option that is not named here."""
MOMENTA = ("sgd", "rmsprop", "madgrad")
SCHEDULE_FREE = "adamw_schedule_free"


class OptimizerConfig(ClosedModel):
    name: OptimizerName
    lr: Positive
    """Highest learning rate of the schedule. rprop starts from the rate of the first step and
    adapts it without the schedule."""
    momentum: Share = 0.0
    """Of sgd, rmsprop and madgrad; the others have none."""
    weight_decay: NonNegative = 0.0
    """Decay per step, relative to the learning rate for adamw, lamb, lion, adafactor, adabelief and
    adamw_schedule_free, else as an L2 term. Not of rprop."""
    embedding_lr_scale: Positive = 1.0
    """Factor on the learning rate of word embeddings."""
    encoder_lr_scale: Positive | None = None
    """Factor on the learning rate of a pretrained encoder; null: 1."""
    layer_decay: Annotated[float, Field(gt=0, le=1)] | None = None
    """Factor on the learning rate of a pretrained encoder per layer below its last one, down to the
    embeddings; null: none."""
    decayed: Literal["matrices"] | None = None
    """matrices: weight_decay leaves out biases and normalisation weights; null: it has all."""
    eps: Positive | None = None
    """Added to the root of the mean squared gradient; null: 1e-8, 1e-6 for lamb, adadelta and
    madgrad, 1e-10 for adagrad and 1e-16 for adabelief. Not of sgd, adamax, adafactor, lion, asgd
    and rprop."""
    second_decay: Share | None = None
    """Decay per step of the mean squared gradient; of lion, of the mean gradient that is kept.
    null: 0.999, and 0.99 for lion."""
    first_decay: Share | None = None
    """Decay per step of the mean gradient; null: 0.9. Not of sgd, adagrad, adafactor, rmsprop,
    adadelta, asgd, rprop and madgrad."""
    nesterov: Literal[True] | None = None
    """true: sgd looks ahead along its momentum; null: it does not."""
    decoupled: Literal[True] | None = None
    """true: the weight_decay of radam and nadam is relative to the learning rate, as that of adamw;
    null: an L2 term."""

    @model_validator(mode="after")
    def _check_options(self) -> "OptimizerConfig":
        if self.momentum and self.name not in MOMENTA:
            raise ValueError(
                f"found momentum with {self.name}; only {_join(MOMENTA)} have a momentum."
            )
        if self.weight_decay and self.name == "rprop":
            raise ValueError("found weight_decay with rprop, which has none; set it to 0.")
        for key, names in OPTIONS.items():
            if getattr(self, key) is not None and self.name not in names:
                verb = "has" if len(names) == 1 else "have"
                raise ValueError(f"found {key} with {self.name}; only {_join(names)} {verb} it.")
        if self.nesterov and not self.momentum:
            raise ValueError("found nesterov with a momentum of 0; set momentum, such as 0.9.")
        return self


class SwaConfig(ClosedModel):
    """Stochastic weight averaging: the plain mean of the weights of many steps.

    The means of batch normalisation are computed again, in one pass over the training split.

    Source: Izmailov et al. 2018 (averaging weights leads to wider optima), algorithm 1.
    """

    start: Share
    """Share of all steps before the first one that counts."""
    every: Count
    """Steps from one that counts to the next; the paper has one per epoch."""
    lr: Positive | None = None
    """Learning rate from the start on; null: that of the schedule."""
    anneal: Whole = 0
    """Steps in which the learning rate moves to lr, along half a cosine wave."""

    @model_validator(mode="after")
    def _check_anneal(self) -> "SwaConfig":
        if self.anneal and self.lr is None:
            raise ValueError("found anneal and no lr to reach; set lr, or leave anneal out.")
        return self


def _join(names: tuple[str, ...]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
