import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from nlp_core.config.base import parse_config, read_config, read_mapping
from nlp_core.config.params import Params, read_params
from nlp_core.config.user_data import TrainingConfig
from nlp_core.errors import ConfigError
from tests.tiny import make_recipe

Change = Callable[[dict[str, Any]], Any]


def make_params() -> dict[str, Any]:
    recipe = make_recipe().model_dump(mode="json")
    experiment = {
        "table": "glue",
        "model": "zoo/glue/rte_bilstm.json",
        "data": "rte",
        "init": "data/processed/glove",
        "recipe": "fast",
        "seeds": [1, 2],
    }
    return {
        "numerics": 1,
        "tasks": ["rte", "glove"],
        "tables": ["glue"],
        "recipes": {"fast": recipe},
        "experiments": {"rte_bilstm": experiment},
    }


def put(path: str, value: object) -> Change:
    def change(params: dict[str, Any]) -> None:
        *parents, last = path.split(".")
        for parent in parents:
            params = params[parent]
        params[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (put("experiments.rte_bilstm.data", "rt"), "experiments.rte_bilstm.data: unknown task or group 'rt'. Did you mean 'rte'?"),  # noqa: E501
        (put("experiments.rte_bilstm.recipe", "fats"), "unknown recipe 'fats'. Did you mean 'fast'?"),  # noqa: E501
        (put("experiments.rte_bilstm.table", "glu"), "unknown table 'glu'. Did you mean 'glue'?"),
        (put("experiments.rte_bilstm.init", "data/processed/glov"), "unknown task 'glov'. Did you mean 'glove'?"),  # noqa: E501
        (put("experiments.rte_bilstm.init", "/tmp/x"), "experiments.rte_bilstm.init: found '/tmp/x'"),  # noqa: E501
        (put("experiments.rte_bilstm.seed", [1]), "experiments.rte_bilstm.seed: unknown key. Did you mean 'seeds'?"),  # noqa: E501
        (put("experiments.rte_bilstm.seeds", [1, 1]), "seeds: found [1, 1], expected each once"),
        (put("experiments.rte_bilstm.seeds", [2**32]), "seeds.0: found 4294967296"),
        (put("experiments.rte_bilstm.seeds", []), "experiments.rte_bilstm.seeds: found []"),
        (put("experiments.rte_bilstm.seeds", ["1"]), "found '1'"),
        (put("recipes.fast.epochs", -1), "recipes.fast.epochs: found -1"),
        (put("recipes.fast.epoch", 3), "recipes.fast.epoch: unknown key. Did you mean 'epochs'?"),
        (put("recipes.fast.batch_size", "32"), "recipes.fast.batch_size: found '32'"),
        (put("recipes.fast.optimizer.name", "adan"), "found 'adan'. Did you mean 'adam'?"),
        (put("recipes.fast.optimizer.momentum", 0.9), "only sgd, rmsprop and madgrad have a"),
        (put("recipes.fast.batch_growth", {"name": "linear", "last": 4, "epochs": 2}), "batch_growth.last: found 4, expected"),  # noqa: E501
        (put("recipes.fast.schedule.warm_up", 0.1), "warm_up: unknown key. Did you mean 'warmup'?"),
        (put("recipes.fast.adversarial", {"name": "smrt"}), "recipes.fast.adversarial: found"),
        (put("recipes.fast.adversarial", {"name": "fgm", "weight": 0.0, "epsilon": 1.0, "level": "token"}), "weight: found 0.0"),  # noqa: E501
        (put("recipes.fast.adversarial", {"name": "fgm", "weight": 1.0, "epsilonn": 1.0, "level": "token"}), "epsilonn: unknown key. Did you mean 'epsilon'?"),  # noqa: E501
        (put("numerics", None), "numerics: found None"),
        (lambda params: params.pop("tables"), "tables: this key is missing"),
    ],
)  # fmt: skip
def test_mistake_is_named_with_key_and_remedy(
    tmp_path: Path, change: Change, expected: str
) -> None:
    params = make_params()
    change(params)
    path = tmp_path / "params.json"
    path.write_text(json.dumps(params), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_config(path, Params)
    assert str(caught.value).startswith(str(path))
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def write_grid(root: Path, tables: dict[str, dict[str, Any]], **more: object) -> Path:
    """Write params.yaml, and each table's cells into grid/."""
    params = make_params()
    common = {name: item for name, item in params.items() if name in ("numerics", "tasks")}
    path = root / "params.yaml"
    path.write_text(yaml.safe_dump({**common, **more}), encoding="utf-8")
    (root / "grid").mkdir(exist_ok=True)
    for name, table in tables.items():
        (root / f"grid/{name}.yaml").write_text(yaml.safe_dump(table), encoding="utf-8")
    return path


def make_table(table: str, prefix: str = "") -> dict[str, Any]:
    params = make_params()
    cell = {**params["experiments"]["rte_bilstm"], "table": table, "recipe": f"{prefix}fast"}
    recipes = {f"{prefix}fast": params["recipes"]["fast"]}
    return {"recipes": recipes, "experiments": {f"{prefix}rte_bilstm": cell}}


def test_the_cells_of_each_table_come_from_a_file_of_its_own(tmp_path: Path) -> None:
    tables = {"glue": make_table("glue"), "slu": make_table("slu", "slu_")}
    params = read_params(write_grid(tmp_path, tables))
    assert list(params.recipes) == ["fast", "slu_fast"]
    assert {name: item.table for name, item in params.experiments.items()} == {
        "rte_bilstm": "glue",
        "slu_rte_bilstm": "slu",
    }


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (put("experiments.slu_rte_bilstm.seeds", []), "experiments.slu_rte_bilstm.seeds: found []"),
        (put("experiments.slu_rte_bilstm.recipe", "fast"), "experiments.slu_rte_bilstm.recipe: unknown recipe 'fast', expected one of the same file. Did you mean 'slu_fast'?"),  # noqa: E501
        (put("experiments.slu_rte_bilstm.table", "glue"), "experiments.slu_rte_bilstm.table: found 'glue', expected 'slu'"),  # noqa: E501
        (lambda table: table["recipes"].update(fast=table["recipes"]["slu_fast"]), "recipes.fast: another table has this name"),  # noqa: E501
        (put("experiment", {}), "experiment: unknown key. Did you mean 'experiments'?"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_table_names_its_file(tmp_path: Path, change: Change, expected: str) -> None:
    table = make_table("slu", "slu_")
    change(table)
    path = write_grid(tmp_path, {"glue": make_table("glue"), "slu": table})
    with pytest.raises(ConfigError) as caught:
        read_params(path)
    assert str(caught.value).startswith(f"{tmp_path}/grid/slu.yaml: {expected}")


def test_a_mistake_between_files_names_the_key(tmp_path: Path) -> None:
    table = make_table("glue")
    table["experiments"]["rte_bilstm"]["data"] = "rt"
    with pytest.raises(
        ConfigError, match=r"params\.yaml and .*grid: experiments\.rte_bilstm\.data"
    ):
        read_params(write_grid(tmp_path, {"glue": table}))


def test_a_cell_beside_the_grid_is_told_where_it_belongs(tmp_path: Path) -> None:
    path = write_grid(tmp_path, {"glue": make_table("glue")}, experiments={})
    with pytest.raises(ConfigError, match=r"experiments: found here, expected in grid/<table>"):
        read_params(path)


def test_a_list_of_tables_beside_the_grid_is_an_error(tmp_path: Path) -> None:
    path = write_grid(tmp_path, {"glue": make_table("glue")})
    path.write_text(f"{path.read_text()}tables: [glue]\n")
    with pytest.raises(ConfigError, match=r"tables: found here, but the tables are the files of"):
        read_params(path)


def test_optional_cells_are_no_part_of_the_whole_table(tmp_path: Path) -> None:
    table = make_table("glue")
    (name, cell), *_ = table["experiments"].items()
    table["optional"] = {"more": {**cell, "data": "mnli", "init": "data/processed/bert"}}
    params = read_params(write_grid(tmp_path, {"glue": table}))
    assert params.optional == ["more"]
    assert [*params.list_cells("glue")] == [name]
    assert {*params.list_cells("glue", ["more"])} == {name, "more"}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (put("optional.more.recipe", "fats"), "optional.more.recipe: unknown recipe 'fats'"),
        (put("optional.more.table", "b"), "optional.more.table: found 'b', expected 'a'"),
        (put("optional", {}), None),
    ],
)
def test_a_mistake_in_an_optional_cell_is_named(
    tmp_path: Path, change: Change, expected: str | None
) -> None:
    table = make_table("a")
    table["optional"] = {"more": {**next(iter(table["experiments"].values()))}}
    change(table)
    path = write_grid(tmp_path, {"a": table})
    if expected is None:
        assert read_params(path).optional == []
        return
    with pytest.raises(ConfigError, match=re.escape(expected)):
        read_params(path)


def test_no_cell_of_the_dag_needs_an_optional_one_or_has_its_name(tmp_path: Path) -> None:
    table = make_table("a")
    (name, cell), *_ = table["experiments"].items()
    table["optional"] = {"more": {**cell}}
    table["experiments"]["last"] = {**cell, "init": "artifacts/cells/a/more"}
    with pytest.raises(ConfigError, match="more"):
        read_params(write_grid(tmp_path, {"a": table}))
    del table["experiments"]["last"]
    table["optional"] = {name: {**cell}}
    with pytest.raises(ConfigError, match="an experiment has this name"):
        read_params(write_grid(tmp_path, {"a": table}))


def test_the_project_s_own_grid_is_valid() -> None:
    params = read_params(Path("params.yaml"))
    assert {cell.table for cell in params.experiments.values()} <= set(params.tables)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: no\n", "YAML 1.1 reads False here and YAML 1.2 reads 'no'"),
        ("a: 1e-5\n", "YAML 1.1 reads '1e-5' here"),
        ("a: 012\n", "YAML 1.1 reads 10 here and YAML 1.2 reads 12"),
        ("a: [1\n", "not valid YAML at line"),
        ("- 1\n", "found a list, expected a mapping"),
        ("", "found nothing, expected a mapping"),
        ("a: 1\na: 2\n", "not valid YAML"),
        (
            "a:\n  b: [2024-05-01]\n",
            "a.b[0]: found the date 2024-05-01, expected a text; quote it.",
        ),
        ("a: !!set {b}\n", "a: found the set {'b'}, expected a text"),
        ("a: &b [*b]\n", "found a value that contains itself"),
        ("a: 2024-02-30\n", "day is out of range for month; quote a text"),
    ],
)
def test_yaml_that_means_two_things_or_nothing_is_refused(
    tmp_path: Path, text: str, expected: str
) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"x\.yaml") as caught:
        read_mapping(path)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'{"a": 1,}', "not valid JSON at line 1"),
        (b'{"a": 1, "a": 2}', "the key 'a' twice"),
        (b'{"a": "\xff"}', "not UTF-8 text"),
        (b'{"a": ' + b"1" * 5000 + b"}", "cannot read this JSON"),
        (b'{"a": ' + b"[" * 100_000, "cannot read this JSON"),
    ],
)
def test_broken_json_is_refused_with_its_place(
    tmp_path: Path, content: bytes, expected: str
) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"x\.json") as caught:
        read_mapping(path)
    assert expected in str(caught.value)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        read_mapping(tmp_path / "params.yaml")


def test_a_field_that_came_later_moves_no_key_of_a_recipe_without_it() -> None:
    """A trained cell's key is a digest of it: no name may come or go, no value change its form."""
    assert make_recipe().describe() == {
        "optimizer": {
            "name": "adam",
            "lr": 0.01,
            "momentum": 0.0,
            "weight_decay": 0.0,
            "embedding_lr_scale": 1.0,
        },
        "schedule": {"name": "warmup_linear", "warmup": 0.1},
        "batch_size": 8,
        "epochs": 3,
        "validations_per_epoch": 1,
        "patience": None,
        "clip_norm": 5.0,
        "ema_decay": 0.9,
        "bucket_batches": 50,
    }
    fgm = {"name": "fgm", "weight": 1.0, "epsilon": 1.0, "level": "sentence"}
    assert make_recipe(adversarial=fgm).describe()["adversarial"] == fgm


def test_a_share_of_train_has_no_soft_labels() -> None:
    distillation = {"name": "kl", "temperature": 2.0, "weight": 0.5}
    with pytest.raises(ValidationError, match="found train_share with a distillation"):
        make_recipe(train_share=0.1, distillation=distillation)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("mixing", {"name": "uniform"}),
        ("task_weights", {"rte": 2.0}),
        ("task_batch_sizes", {"rte": 2}),
        ("task_lr_scales", {"rte": 2.0}),
        ("distillation", {"name": "kl", "temperature": 2.0, "weight": 0.5}),
    ],
)
def test_a_model_file_has_no_keys_of_groups_and_teachers(key: str, value: object) -> None:
    assert parse_config({}, TrainingConfig, where="m.json").epochs == 10
    with pytest.raises(ConfigError, match=f"found {key}, which is for cells of grid/"):
        parse_config({key: value}, TrainingConfig, where="m.json")


def test_a_message_shows_long_values_and_many_mistakes_in_part() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config({"epochs": "9" * 5000}, TrainingConfig, where="m.json: training")
    assert "m.json: training: epochs: found '9999" in str(caught.value)
    assert "9 ...; input should be a valid integer." in str(caught.value)
    assert len(str(caught.value)) < 400
    with pytest.raises(ConfigError, match=r"k0: unknown key.*k4: unknown key.*3 more errors[.]$"):
        parse_config({f"k{idx}": 1 for idx in range(8)}, TrainingConfig, where="m.json: training")
