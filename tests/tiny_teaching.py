"""A grid of a teacher and a student on one task, for the tests of distillation."""

from collections.abc import Mapping, Sequence
from typing import Any

from nlp_core.config.params import Params
from nlp_core.training.cell import Cell, read_cell
from nlp_core.training.cell_run import train_cell
from nlp_core.training.teaching import read_teacher, teach

KL: dict[str, Any] = {"name": "kl", "temperature": 2.0, "weight": 0.5}


def make_grid(
    data: str,
    init: str,
    *,
    models: tuple[str, str],
    recipes: Mapping[str, Mapping[str, Any]],
    teachers: Mapping[str, Mapping[str, Any]] | None = None,
    seeds: Sequence[int] = (1,),
) -> Params:
    """Return a grid of the cell `old`, which teaches, and of the student `young`.

    Args:
        data: the task.
        init: vectors or an encoder, under data/processed.
        models: of the teacher and the student, as they are called below zoo/.
        teachers: changes to entries of the one teacher's, by the name of the task that it makes of
            the one before; the student learns the last.
        seeds: that the teacher is trained with.
        recipes: `alone` of the teacher, `taught` of the student.
    """
    cell = {"init": f"data/processed/{init}", "table": "sample"}
    old, young = (f"zoo/{model}.json" for model in models)
    taught: dict[str, dict[str, Any]] = {}
    before = data
    for name, changes in ({"one": {}} if teachers is None else teachers).items():
        teacher = {"cell": "artifacts/cells/sample/old", "seeds": [1], "data": before}
        taught[name], before = {**teacher, **changes}, name
    return Params.model_validate(
        {
            "numerics": 1,
            "tasks": [init, data],
            "tables": ["sample"],
            "metrics": {"sample": ["auc"]},
            "recipes": recipes,
            "taught": taught,
            "experiments": {
                "old": {
                    **cell,
                    "data": data,
                    "model": old,
                    "recipe": "alone",
                    "seeds": list(seeds),
                },
                "young": {**cell, "data": before, "model": young, "recipe": "taught", "seeds": [1]},
            },
        }
    )


def ask(params: Params) -> Cell:
    """Train the teacher, write what it teaches, and return the student."""
    train_cell(read_cell("old", params))
    for name in params.taught:
        teach(read_teacher(name, params))
    return read_cell("young", params)
