"""Groups of tasks and of cells: what they stand for, and users' mistakes."""

from typing import Any

import pytest

from nlp_core.config.base import parse_config
from nlp_core.config.params import Params
from nlp_core.errors import ConfigError
from tests.test_params import make_params
from tests.tiny_group import describe_groups

CELL = {"group": "artifacts/groups/pair", "folder": "artifacts/cells/glue", "member": "rte_bilstm"}
TASK = {"group": "data/processed/pair", "folder": "data/processed", "member": "rte"}


def read(groups: dict[str, Any], **changes: Any) -> Params:
    return parse_config(make_params() | {"groups": groups} | changes, Params, where="params.yaml")


def test_a_group_of_tasks_stands_for_its_members_in_their_order() -> None:
    groups = describe_groups({"pair": ["rte", "glove"], "back": ["glove", "rte"]})
    params = read(groups)
    assert params.list_tasks("pair") == ["rte", "glove"]
    assert params.list_tasks("back") == ["glove", "rte"]
    assert [params.is_group(name) for name in ("pair", "back", "rte")] == [True, True, False]
    assert params.list_members("data/processed/pair") == {
        "data/processed/pair/rte": "data/processed/rte",
        "data/processed/pair/glove": "data/processed/glove",
    }


def test_any_other_folder_stands_for_itself() -> None:
    for folder in ("data/processed/rte", "artifacts/cells/glue/rte_bilstm"):
        assert read({}).list_members(folder) == {folder: folder}


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ({"a": TASK, "b": TASK}, "found 'rte' twice in 'data/processed/pair'"),
        ({"a": TASK}, "found the only member 'rte' in 'data/processed/pair', expected at least"),
        ({"a": TASK | {"member": "rt"}}, "groups.a.member: unknown task 'rt'"),
        ({"a": TASK | {"group": "data/processed/rte"}}, "a.group: a task is named 'rte'"),
        ({"a": TASK | {"group": CELL["group"]}}, "expected a folder in data/processed/"),
        ({"a": TASK | {"group": "data/pair"}}, "groups.a.group: found 'data/pair'"),
        ({"a": CELL | {"group": TASK["group"]}}, "expected a folder in artifacts/groups/"),
        ({"a": CELL, "b": CELL | {"member": "rte_bi"}}, "groups.b: unknown cell 'rte_bi'"),
        ({"a": ["rte", "glove"]}, "groups.a: found"),
    ],
)
def test_users_mistakes_are_named(groups: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(groups)
    assert expected in str(caught.value)


def test_two_cells_of_one_name_cannot_be_in_one_group() -> None:
    other = CELL | {"folder": "artifacts/cells/other"}
    with pytest.raises(ConfigError, match="found 'rte_bilstm' twice in 'artifacts/groups/pair'"):
        read({"a": CELL, "b": other})
