"""A space: which values of a model file and its recipe `reglue search` varies, and how far."""

import json
import math
from typing import Any, Literal, NamedTuple

from pydantic import Field, model_validator

from nlp_core.config.base import ClosedModel

Number = int | float


class DimensionConfig(ClosedModel):
    """The values that one key may have: a range of numbers, or a list of choices."""

    low: Number | None = None
    """Least value of a range. Whole numbers if low, high and step are."""
    high: Number | None = None
    """Greatest value of a range, included."""
    step: Number | None = None
    """Distance of the values of a range; null: 1 for whole numbers, none for others."""
    scale: Literal["linear", "log"] = "linear"
    """log: values are drawn by their logarithm, as learning rates are."""
    choices: list[Any] | None = Field(default=None, min_length=2)  # Any: what JSON holds
    """The values themselves, of any type."""

    @model_validator(mode="after")
    def _check_form(self) -> "DimensionConfig":
        if self.choices is not None:
            return self._check_choices()
        low, high = self.low, self.high
        if low is None or high is None:
            raise ValueError("found no range, expected low and high, or choices.")
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ValueError(f"found low {low} and high {high}, expected a low below the high.")
        if self.scale == "log" and (low <= 0 or self.step is not None):
            raise ValueError(
                f"found scale: log with low {low} and step {self.step}, expected a low above 0 and "
                "no step."
            )
        if self.step is not None and not (self.step > 0 and _is_on_step(high - low, self.step)):
            raise ValueError(
                f"found step {self.step}, expected one above 0 that leads from {low} to {high}."
            )
        return self

    def _check_choices(self) -> "DimensionConfig":
        if self.low is not None or self.high is not None or self.step is not None:
            raise ValueError("found choices with a range, expected one of them.")
        names = self.names
        if len({*names}) < len(names):
            raise ValueError(f"found {', '.join(names)}, expected choices that differ.")
        return self

    @property
    def names(self) -> list[str]:
        """The choices as JSON."""
        return [json.dumps(item, sort_keys=True) for item in self.choices or []]

    @property
    def is_whole(self) -> bool:
        return all(isinstance(item, int) for item in (self.low, self.high, self.step or 1))

    @property
    def ends(self) -> list[Any]:
        """The values to check before work starts: all choices, or both ends of a range."""
        return [self.low, self.high] if self.choices is None else self.choices

    def holds(self, value: object) -> bool:
        """Return whether a value belongs to the dimension."""
        if self.choices is not None:
            return json.dumps(value, sort_keys=True) in self.names
        assert self.low is not None
        assert self.high is not None
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        step = self.step or (1 if self.is_whole else None)
        return self.low <= value <= self.high and _is_on_step(value - self.low, step)


def _is_on_step(distance: Number, step: Number | None) -> bool:
    return step is None or math.isclose(distance / step, round(distance / step), abs_tol=1e-9)


class SearchObjective(NamedTuple):
    """What a search makes better: a metric of the split that chooses the epoch."""

    metric: str
    split: str
    direction: int
    """-1 if less is better."""


class Outcome(NamedTuple):
    """A trial that ended."""

    number: int
    """From 0."""
    state: str
    """finished, pruned (its score is then that of its last validation) or failed."""
    values: dict[str, Any]
    score: float | None
    """Of the metric as it is reported; null: it failed."""


class SpaceConfig(ClosedModel):
    description: str = ""
    values: dict[str, DimensionConfig] = Field(min_length=1)
    """By the path of a key, as `--set` names it: training.optimizer.lr, layers.lstm.hidden_dim."""

    @model_validator(mode="after")
    def _check_paths(self) -> "SpaceConfig":
        for path in self.values:
            for other in self.values:
                if other.startswith(f"{path}."):
                    raise ValueError(
                        f"values: found {path} and {other}, which is a part of it, expected one "
                        "of them."
                    )
        return self
