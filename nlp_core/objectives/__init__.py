"""What a step trains on: the plain loss, or adversarial objectives on perturbed word vectors."""

from nlp_core.objectives.build import build_objective
from nlp_core.objectives.objective import Objective

__all__ = ["Objective", "build_objective"]
