"""A grid of a teacher and a student on one task, for the tests of distillation."""

from collections.abc import Mapping, Sequence
from typing import Any

from nlp_core.config.params import Params
from nlp_core.training.cell import Cell, read_cell, train_cell
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
        recipes: `alone` of the teacher, `taught` of the student.
        teachers: changes to entries of the one teacher's, by name.
        seeds: that the teacher is trained with.
    """
    cell = {"data": data, "init": f"data/processed/{init}", "table": "sample"}
    teacher = {"cell": "artifacts/finetune/sample/old", "seeds": [1], "data": data, "set": "tiny"}
    old, young = (f"zoo/{model}.json" for model in models)
    labels = "artifacts/soft_labels/tiny"
    return Params.model_validate(
        {
            "numerics": 1,
            "sources": [init, data],
            "tasks": [init, data],
            "tables": ["other"],
            "distilled_tables": {"sample": {"metrics": ["auc"]}},
            "recipes": recipes,
            "experiments": {"old": {**cell, "model": old, "recipe": "alone", "seeds": list(seeds)}},
            "teachers": {
                name: {**teacher, **changes}
                for name, changes in ({"one": {}} if teachers is None else teachers).items()
            },
            "distillations": {
                "young": {
                    **cell,
                    "model": young,
                    "recipe": "taught",
                    "seeds": [1],
                    "soft_labels": labels,
                }
            },
        }
    )


def ask(params: Params) -> Cell:
    """Train the teacher, store what it says, and return the student."""
    train_cell(read_cell("old", params))
    for name in params.teachers:
        teach(read_teacher(name, params))
    return read_cell("young", params)
