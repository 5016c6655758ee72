"""Groups: the tasks that one model is trained on, or the cells that one ensemble averages."""

from collections.abc import Callable, Collection, Mapping
from pathlib import PurePath
from typing import Annotated

from pydantic import Field, model_validator

from nlp_core.config.base import CELLS, NAME_PART, PROCESSED, ClosedModel, Name, check_known

GROUPS = "artifacts/groups"
"""Where the groups of trained cells are."""


class GroupMemberConfig(ClosedModel):
    """A member of a group; the gather stage copies it to the group's folder.

    DVC takes no list of dependencies from params.yaml, but one folder into which several stages
    write.
    """

    group: Annotated[str, Field(pattern=f"^({PROCESSED}|{GROUPS})/{NAME_PART}$")]
    """Folder of the group."""
    folder: Annotated[str, Field(pattern=f"^({PROCESSED}|{CELLS}{NAME_PART})$")]
    """Folder of the member: of processed tasks, or of the cells of a table."""
    member: Name

    @model_validator(mode="after")
    def _check_folders(self) -> "GroupMemberConfig":
        if self.is_task != self.group.startswith(PROCESSED):
            expected = f"in {PROCESSED}/" if self.is_task else f"in {GROUPS}/"
            raise ValueError(
                f"group: found '{self.group}' for a member in {self.folder}/, expected a folder "
                f"{expected}; groups of tasks and groups of cells have different places."
            )
        return self

    @property
    def is_task(self) -> bool:
        return self.folder == PROCESSED

    @property
    def source(self) -> str:
        """The folder that is copied."""
        return f"{self.folder}/{self.member}"

    @property
    def copy_folder(self) -> str:
        """The copy in the group."""
        return f"{self.group}/{self.member}"


def check_groups(
    groups: Mapping[str, GroupMemberConfig],
    tasks: Collection[str],
    list_tasks: Callable[[str], list[str]],
) -> None:
    """Raise ValueError unless each group has at least two members, and each of them once.

    Args:
        groups: by their keys the members of all groups.
        tasks: names of all tasks.
        list_tasks: returns the tasks of a group, given its name; a taught task counts as its own.
    """
    members: dict[str, list[str]] = {}
    for key, item in groups.items():
        members.setdefault(item.group, []).append(item.member)
        if item.is_task:
            check_known(f"groups.{key}.member", "task", item.member, tasks)
            if (name := PurePath(item.group).name) in tasks:
                raise ValueError(f"groups.{key}.group: a task is named '{name}'; choose another.")
    for group, names in members.items():
        tasks_of_group = list_tasks(PurePath(group).name) if group.startswith(PROCESSED) else []
        for found in (names, tasks_of_group):
            if twice := next((name for name in found if found.count(name) > 1), None):
                raise ValueError(f"groups: found '{twice}' twice in '{group}', expected it once.")
        if len(names) < 2:
            raise ValueError(
                f"groups: found the only member '{names[0]}' in '{group}', expected at least two; "
                "add one, or name the member instead of the group."
            )
