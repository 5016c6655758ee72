from pathlib import Path

import pytest
import yaml
from dvc.utils.serialize import dumps_yaml, parse_yaml_for_update

from nlp_core import dag
from nlp_core.config.params import read_params
from nlp_core.errors import ConfigError
from tests.workflow_project import Project, copy_workflow, make_stub_project

MOST_STAGES, MOST_ENTRIES = 266, 9


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_stub_project(tmp_path_factory.mktemp("stub"))


@pytest.fixture(scope="module")
def stages(project: Project) -> dict[str, dag.Stage]:
    return {stage.name: stage for stage in dag.load_stages(project.root)}


def test_every_name_of_the_grid_becomes_a_stage(stages: dict[str, dag.Stage]) -> None:
    assert sorted(stages) == [
        "evaluate@large",
        "evaluate@small",
        "finetune@large_one",
        "finetune@large_two",
        "finetune@small_one",
        "preprocess@vectors",
        "preprocess@words",
        "report@large",
        "report@small",
    ]


def test_cell_has_its_command_and_paths(stages: dict[str, dag.Stage]) -> None:
    cell = stages["finetune@large_two"]
    assert cell.command == "python -m stages.finetune large_two"
    assert cell.inputs == ("zoo/two.json", "data/processed/words", "data/processed/vectors")
    assert cell.outputs == ("artifacts/cells/large/large_two",)


def test_folder_that_gathers_cells_is_given_as_the_cells(stages: dict[str, dag.Stage]) -> None:
    assert stages["evaluate@large"].inputs == (
        "artifacts/cells/large/large_one",
        "artifacts/cells/large/large_two",
        "grid/large.yaml",
    )


def test_a_cell_that_starts_from_another_one_waits_for_it(tmp_path: Path) -> None:
    project = make_stub_project(tmp_path)
    path = tmp_path / "grid/small.yaml"
    text = path.read_text(encoding="utf-8")
    changed = text.replace("data/processed/vectors", "artifacts/cells/large/large_one")
    path.write_text(changed, encoding="utf-8")
    stages = {stage.name: stage for stage in dag.load_stages(tmp_path)}
    assert "artifacts/cells/large/large_one" in stages["finetune@small_one"].inputs
    ran = project.build("dvc", "repro", "finetune@small_one")
    assert [line for line in ran if line.startswith("finetune")] == [
        "finetune large_one",
        "finetune small_one",
    ]
    planned = project.run("snakemake", "--cores", "1", "--dry-run", "reports/small.md")
    assert planned.returncode == 0, planned.stderr


def test_students_come_after_their_teachers_and_before_their_table(tmp_path: Path) -> None:
    project = make_stub_project(tmp_path)
    project.add_student()
    stages = {stage.name: stage for stage in dag.load_stages(tmp_path)}
    (taught,) = stages["teach@words_taught"].outputs
    assert stages["teach@words_taught"].inputs == (
        "artifacts/cells/large/large_one",
        "data/processed/words",
    )
    assert taught in stages["finetune@young"].inputs
    assert stages["evaluate@pupils"].inputs == (
        "artifacts/cells/pupils/alone",
        "artifacts/cells/pupils/young",
        "grid/pupils.yaml",
    )


def test_rule_name_is_an_identifier(stages: dict[str, dag.Stage]) -> None:
    names = [stage.rule_name for stage in stages.values()]
    assert all(name.isidentifier() for name in names)
    assert len(set(names)) == len(stages)


@pytest.mark.parametrize(
    ("path", "expected"),
    [("data/raw/cola", True), ("results/glue.json", False), ("artifacts/a.b/cell", True)],
)
def test_is_folder_goes_by_the_last_part(path: str, *, expected: bool) -> None:
    assert dag.is_folder(path) is expected


def test_nothing_built_means_everything_is_stale(
    project: Project, stages: dict[str, dag.Stage]
) -> None:
    stale = dag.find_stale(project.root)
    assert sorted(stale) == sorted(stages)
    assert stale["finetune@large_one"][0] == "not built here"


def test_wrong_grid_is_a_config_error_that_names_the_key(tmp_path: Path) -> None:
    project = make_stub_project(tmp_path)
    path = tmp_path / "grid/large.yaml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("    recipe: slow\n", ""), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"dvc\.yaml: .*item\.recipe"):
        dag.load_stages(project.root)


def test_folder_without_dvc_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not inside of a DVC repository"):
        dag.load_stages(tmp_path)


def test_start_mark_differs_each_time(tmp_path: Path) -> None:
    mark = tmp_path / "engine" / "start"
    contents = set()
    for _ in range(2):
        dag.mark_start(mark)
        contents.add(mark.read_text(encoding="ascii"))
    assert len(contents) == 2


def test_record_built_takes_only_what_is_newer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_stub_project(tmp_path)
    stages = {stage.name: stage for stage in dag.load_stages(tmp_path)}
    monkeypatch.chdir(tmp_path)
    project.build("python", "-m", "stages.preprocess", "words")
    dag.mark_start(tmp_path / "start")
    project.build("python", "-m", "stages.preprocess", "vectors")
    dag.record_built(tmp_path, stages.values(), tmp_path / "start")
    stale = dag.find_stale(tmp_path)
    assert "preprocess@vectors" not in stale
    assert "preprocess@words" in stale


def test_dvc_reads_every_table_of_the_repository() -> None:
    root = Path(__file__).resolve().parent.parent
    workflow = yaml.safe_load((root / "dvc.yaml").read_text(encoding="utf-8"))
    listed, *read = workflow["vars"]
    assert listed["tables"] == sorted(path.stem for path in (root / "grid").iterdir())
    assert [item.partition(":")[0] for item in read] == [
        f"grid/{name}.yaml" for name in listed["tables"]
    ]


def test_repository_grid_stays_small_enough_for_dvc() -> None:
    root = Path(__file__).resolve().parent.parent
    assert 5 <= len(dag.load_stages(root)) <= MOST_STAGES
    workflow = yaml.safe_load((root / "dvc.yaml").read_text(encoding="utf-8"))
    assert len(workflow["stages"]) <= MOST_ENTRIES


def test_a_cell_of_a_group_waits_for_each_member() -> None:
    root = Path(__file__).resolve().parent.parent
    stages = {stage.name: stage for stage in dag.load_stages(root)}
    copies = ("data/processed/mrpc_rte/mrpc", "data/processed/mrpc_rte/rte")
    assert {*copies} <= {*stages["finetune@ablation_mtl_uniform"].inputs}
    for path in copies:
        task = path.rpartition("/")[2]
        stage = stages[f"gather@mrpc_rte_{task}"]
        assert (stage.inputs, stage.outputs) == ((f"data/processed/{task}",), (path,))


def test_a_new_ensemble_of_several_cells_needs_no_entry_in_dvc_yaml(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parent.parent
    copy_workflow(tmp_path, "params.yaml", "grid")
    before = {stage.name for stage in dag.load_stages(tmp_path)}
    group, cells = "artifacts/groups/trial", ("cnn", "matchpyramid")
    members = {
        f"trial_{cell}": {"group": group, "folder": "artifacts/cells/wikiqa", "member": cell}
        for cell in cells
    }
    trial = {"table": "wikiqa", "cells": group, "data": "wikiqa", "member_seeds": [1]}
    for name, section, more in (
        ("params.yaml", "groups", members),
        ("grid/wikiqa.yaml", "ensembles", {"trial": {**trial, "combination": "logits"}}),
    ):
        values = yaml.safe_load((root / name).read_text(encoding="utf-8"))
        values[section] |= more
        (tmp_path / name).write_text(yaml.safe_dump(values), encoding="utf-8")
    assert "trial" in read_params(tmp_path / "params.yaml").ensembles
    stages = {stage.name: stage for stage in dag.load_stages(tmp_path)}
    assert stages.keys() - before == {"ensemble@trial", *(f"gather@{key}" for key in members)}
    copies = tuple(f"{group}/{cell}" for cell in cells)
    assert stages["ensemble@trial"].inputs == (*copies, "data/processed/wikiqa")
    assert stages["ensemble@trial"].outputs == ("artifacts/cells/wikiqa/trial",)


def test_dvc_would_write_the_committed_lock_file_as_it_is() -> None:
    """DVC writes the whole file when a stage runs, so other line breaks would show up in git."""
    path = Path(__file__).resolve().parent.parent / "dvc.lock"
    text = path.read_text(encoding="utf-8")
    assert dumps_yaml(parse_yaml_for_update(text, str(path))) == text
