"""A space of values: what it holds, and the mistakes in its file."""

from pathlib import Path
from typing import Any

import pytest

from nlp_core.config.base import read_config
from nlp_core.config.space import DimensionConfig, SpaceConfig
from nlp_core.errors import ConfigError


@pytest.mark.parametrize(
    ("values", "inside", "outside"),
    [
        ({"low": 1, "high": 9}, [1, 5, 9], [0, 10, 1.5, True, "5", None]),
        ({"low": 8, "high": 24, "step": 8}, [8, 16, 24], [12, 32]),
        ({"low": 0.1, "high": 1.0}, [0.1, 0.25, 1], [0.05, 1.01]),
        ({"low": 0.1, "high": 0.5, "step": 0.1}, [0.1, 0.3, 0.5], [0.25]),
        ({"choices": [None, "max", [1, 2]]}, [None, "max", [1, 2]], ["mean", [2, 1], 1]),
    ],
)
def test_a_dimension_holds_its_values(
    values: dict[str, Any], inside: list[object], outside: list[object]
) -> None:
    dimension = DimensionConfig(**values)
    assert [value for value in inside if not dimension.holds(value)] == []
    assert [value for value in outside if dimension.holds(value)] == []
    assert all(dimension.holds(value) for value in dimension.ends)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{low: 2, hihg: 4}", "values.lr.hihg: unknown key. Did you mean 'high'"),
        ("{low: 4, high: 2}", "values.lr: found low 4 and high 2, expected a low below the high."),
        ("{low: 2}", "values.lr: found no range, expected low and high, or choices."),
        ("{low: 0, high: 2, scale: log}", "expected a low above 0 and no step"),
        ("{low: 1, high: 2, step: 3}", "found step 3"),
        ("{low: 1, high: 2, choices: [1, 2]}", "found choices with a range"),
        ("{choices: [a, b, a]}", 'found "a", "b", "a", expected choices that differ'),
        ("{choices: [1]}", "values.lr.choices: found [1]"),
    ],
)
def test_a_wrong_space_names_the_key(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "space.yaml"
    path.write_text(f"values:\n  lr: {line}\n")
    with pytest.raises(ConfigError) as caught:
        read_config(path, SpaceConfig)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)


def test_a_path_and_a_part_of_it_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    path.write_text("values:\n  a.lr: {low: 1, high: 2}\n  a: {choices: [1, 2]}\n")
    with pytest.raises(ConfigError, match=r"found a and a\.lr, which is a part of it"):
        read_config(path, SpaceConfig)


def test_a_value_that_is_no_number_is_named(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("values:\n  training.optimizer.lr: {low: .nan, high: 1.0}\n")
    with pytest.raises(ConfigError, match=r"low.float: found nan; input should be a finite number"):
        read_config(path, SpaceConfig)
