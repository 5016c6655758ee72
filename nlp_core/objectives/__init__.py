"""What a step trains on: the plain loss, adversarial objectives, or the loss of a student."""

from nlp_core.objectives.build import build_objective, check_model
from nlp_core.objectives.distillation import Lesson, Student
from nlp_core.objectives.matching import Matching
from nlp_core.objectives.objective import Objective

__all__ = [
    "Lesson",
    "Matching",
    "Objective",
    "Student",
    "build_objective",
    "check_model",
]
