"""The sample table, built by both engines in two clones, is the same to the last byte."""

import shutil
from pathlib import Path

import pytest
import yaml

from nlp_core.report.difference import check_golden
from nlp_core.report.results import read_results
from tests.workflow_project import OUTPUTS, ROOT, Project, copy_workflow

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

INPUTS = [
    "params.yaml",
    "grid",
    "sources",
    "zoo/sample",
    "stages",
    "nlp_core",
    "reports/published",
]
TABLE = "sample"


@pytest.fixture(scope="module")
def by_dvc(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = make_sample_project(tmp_path_factory.mktemp("determinism") / "dvc")
    done = project.run("dvc", "repro", f"report@{TABLE}", timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]
    return project


@pytest.fixture(scope="module")
def by_snakemake(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = make_sample_project(tmp_path_factory.mktemp("determinism") / "snakemake")
    done = project.run("snakemake", "--cores", "4", f"reports/{TABLE}.md", timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]
    return project


def make_sample_project(root: Path) -> Project:
    """Copy what the sample table is made from, and none of its outputs, to a new folder."""
    root.mkdir(parents=True)
    project = copy_workflow(root, *INPUTS)
    assert not [path for path in project.digest_outputs() if "published" not in path]
    return project


def test_both_engines_write_the_same_files_in_two_clones(
    by_dvc: Project, by_snakemake: Project
) -> None:
    expected, found = by_dvc.digest_outputs(), by_snakemake.digest_outputs()
    cells = list_cells(by_dvc)
    assert {f"artifacts/cells/{TABLE}/{cell}/cell.json" for cell in cells} <= set(expected)
    assert {path.split("/")[0] for path in expected} == {path.split("/")[0] for path in OUTPUTS}
    assert found == expected


def test_results_are_the_golden_ones(by_dvc: Project, tmp_path: Path) -> None:
    for source, name in [(by_dvc.root, "results"), (ROOT, "reports/golden")]:
        (tmp_path / name).mkdir(parents=True)
        shutil.copy2(source / name / f"{TABLE}.json", tmp_path / name)
    results = read_results(TABLE, tmp_path)
    assert sorted(results.cells) == sorted(list_cells(by_dvc))
    check_golden(TABLE, tmp_path)


def test_second_run_of_each_engine_does_nothing(by_snakemake: Project) -> None:
    assert "up to date" in by_snakemake.run("dvc", "repro", f"report@{TABLE}").stdout
    again = by_snakemake.run("snakemake", "--cores", "4", f"reports/{TABLE}.md")
    assert "Nothing to be done" in again.stderr


def list_cells(project: Project) -> list[str]:
    """Return the names of the sample table's cells."""
    path = project.root / "grid" / f"{TABLE}.yaml"
    return list(yaml.safe_load(path.read_text(encoding="utf-8"))["experiments"])
