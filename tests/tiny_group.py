"""Groups of tasks as params.yaml has them, and as the gather stage makes them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nlp_core.config.base import PROCESSED
from nlp_core.data.gathering import gather_member


def describe_groups(groups: dict[str, Sequence[str]]) -> dict[str, Any]:
    """Return the `groups` of params.yaml, given the tasks of each group."""
    return {
        f"{group}_{task}": {"group": f"{PROCESSED}/{group}", "folder": PROCESSED, "member": task}
        for group, tasks in groups.items()
        for task in tasks
    }


def gather_tasks(group: str, tasks: Sequence[str]) -> None:
    """Copy processed tasks into the folder of a group."""
    for task in tasks:
        gather_member(Path(PROCESSED, task), Path(PROCESSED, group))
