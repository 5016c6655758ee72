"""The sample table, built by both engines and on a cluster, is the same to the last byte."""

import shutil
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from nlp_core.report.difference import check_golden
from nlp_core.report.results import read_results
from tests.slurm_cluster import Cluster, find_obstacle, run_cluster
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
OBSTACLE = find_obstacle()
OFTEN = ("--slurm-init-seconds-before-status-checks", "2", "--seconds-between-status-checks", "2")
SLURM = ("snakemake", "--profile", "profiles/slurm", *OFTEN)


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


@pytest.mark.skipif(OBSTACLE is not None, reason=f"no Slurm cluster: {OBSTACLE}")
def test_slurm_writes_the_same_files_although_a_node_dies(by_dvc: Project, tmp_path: Path) -> None:
    project = make_sample_project(tmp_path / "project")
    log = tmp_path / "snakemake.log"
    with run_cluster() as cluster, log.open("w") as output:
        run = subprocess.Popen(
            cluster.wrap(*SLURM, f"reports/{TABLE}.md"),
            cwd=project.root,
            env=project.environment,
            stdout=output,
            stderr=output,
        )
        cluster.kill_node(await_training(project, cluster, run))
        assert run.wait(timeout=1200) == 0, log.read_text()[-4000:]
    assert project.digest_outputs() == by_dvc.digest_outputs()
    assert "up to date" in project.run("dvc", "repro", f"report@{TABLE}").stdout


def await_training(project: Project, cluster: Cluster, run: subprocess.Popen[bytes]) -> str:
    """Return a node that runs a job, as soon as a cell is in training."""
    deadline = time.monotonic() + 600
    while run.poll() is None:
        if time.monotonic() > deadline:
            pytest.fail(f"no cell was in training after 600 s:\n{cluster.describe()}")
        node = cluster.find_busy_node()
        if node and list((project.root / "artifacts/cells").glob(f"{TABLE}/*/*")):
            return node
        time.sleep(0.5)
    pytest.fail("Snakemake ended before a cell was in training")


def test_results_are_the_golden_ones(by_dvc: Project, tmp_path: Path) -> None:
    for source, name in [(by_dvc.root, "results"), (ROOT, "reports/golden")]:
        (tmp_path / name).mkdir(parents=True)
        shutil.copy2(source / name / f"{TABLE}.json", tmp_path / name)
    results = read_results(TABLE, tmp_path)
    assert sorted(results.cells) == sorted(list_cells(by_dvc))
    check_golden(TABLE, tmp_path)


def test_clone_with_a_remote_trains_nothing(by_dvc: Project, tmp_path: Path) -> None:
    by_dvc.run("dvc", "remote", "add", "--default", "shared", str(tmp_path / "remote"))
    assert "files copied to the remote" in by_dvc.run("reglue", "push", TABLE).stdout
    clone = make_sample_project(tmp_path / "clone")
    for name in ("dvc.lock", ".dvc/config"):
        shutil.copy2(by_dvc.root / name, clone.root / name)
    assert "`reglue fetch sample` copies them" in clone.run("reglue", "plan", TABLE).stdout
    assert clone.run("reglue", "fetch", TABLE).returncode == 0
    done = clone.run("dvc", "repro", f"report@{TABLE}")
    assert "Running stage 'finetune" not in done.stdout
    assert clone.digest_outputs() == by_dvc.digest_outputs()


def test_second_run_of_each_engine_does_nothing(by_snakemake: Project) -> None:
    assert "up to date" in by_snakemake.run("dvc", "repro", f"report@{TABLE}").stdout
    again = by_snakemake.run("snakemake", "--cores", "4", f"reports/{TABLE}.md")
    assert "Nothing to be done" in again.stderr


def list_cells(project: Project) -> list[str]:
    """Return the names of the sample table's cells."""
    path = project.root / "grid" / f"{TABLE}.yaml"
    return list(yaml.safe_load(path.read_text(encoding="utf-8"))["experiments"])
