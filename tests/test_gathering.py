"""The members of a group are whole copies; what is not finished joins no group."""

import subprocess
import sys
from pathlib import Path

import pytest

from nlp_core.data.gathering import gather_member
from nlp_core.errors import DataError
from tests.tiny import write_task

CELL = Path("artifacts/cells/trial/rte_tiny")
CELLS, TASKS = Path("artifacts/groups/pair"), Path("data/processed/pair")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a processed task and a trained cell."""
    monkeypatch.chdir(tmp_path)
    write_task(tmp_path, "classification")
    (CELL / "seed-1").mkdir(parents=True)
    for file in ("cell.json", "seed-1/model.safetensors"):
        (CELL / file).write_text(file)
    return tmp_path


def read(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_members_are_copied_into_the_folder_of_their_group(project: Path) -> None:
    task = Path("data/processed/tiny_classification")
    for member, group in ((task, TASKS), (CELL, CELLS)):
        gather_member(member, group)
        assert read(group / member.name) == read(member) != {}


def test_a_copy_is_replaced_as_a_whole(project: Path) -> None:
    gather_member(CELL, CELLS)
    (CELL / "seed-1/model.safetensors").unlink()
    (CELL / "seed-2").mkdir()
    (CELL / "seed-2/model.safetensors").write_text("other")
    gather_member(CELL, CELLS)
    assert read(CELLS / "rte_tiny") == read(CELL)


def test_a_task_that_is_not_processed_is_not_gathered(project: Path) -> None:
    with pytest.raises(DataError, match=r"task 'nothing' is not processed yet"):
        gather_member(Path("data/processed/nothing"), TASKS)
    assert not TASKS.exists()


def test_a_cell_that_is_not_trained_to_its_end_is_not_gathered(project: Path) -> None:
    (CELL / "cell.json").unlink()
    with pytest.raises(DataError, match="the cell 'rte_tiny' is not trained yet, or not to its"):
        gather_member(CELL, CELLS)
    assert not CELLS.exists()


def test_the_stage_names_the_mistake_without_a_traceback(project: Path) -> None:
    root = Path(__file__).resolve().parent.parent
    command = [sys.executable, "-m", "stages.gather", "artifacts/cells/trial/no", str(CELLS)]
    done = subprocess.run(
        command, env={"PYTHONPATH": str(root)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "the cell 'no' is not trained yet" in done.stderr
    assert "Traceback" not in done.stderr
