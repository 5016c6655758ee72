"""Files that are written whole: their digests, their digits, and the paths that they take."""

import errno
import json
import math
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import date
from pathlib import Path

import pytest

from nlp_core.errors import DataError, UsageError
from nlp_core.files import (
    ask_git,
    check_digest,
    check_replaceable,
    digest_file,
    digest_json,
    digest_path,
    format_cells,
    replacing,
    replacing_folder,
    write_json,
)


def test_a_path_through_a_missing_folder_is_the_folder_that_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("mine")
    with pytest.raises(UsageError, match="found something other than a site"):
        check_replaceable(
            tmp_path / "new" / "..", marker="site.json", name="site", option="--out", force=True
        )


def test_a_digest_tells_small_numbers_apart() -> None:
    values = [1e-9, 4e-7, 0.0, 2.6e-6, 3.4e-6]
    assert len({digest_json({"lr": value}) for value in values}) == len(values)
    assert digest_json({"b": (1, 2), "a": 0.1}) == digest_json({"a": 0.1, "b": [1, 2]})


def test_a_row_of_a_table_is_json() -> None:
    row = {"day": date(2024, 1, 2), "n": math.nan, "all": [1.5, {"x": -math.inf}]}
    found = {"day": "2024-01-02", "n": None, "all": [1.5, {"x": None}]}
    assert json.loads(format_cells(row)) == found


def test_numbers_that_are_shown_have_six_places_and_those_that_are_read_back_all(
    tmp_path: Path,
) -> None:
    value = {"eps": 1e-12, "third": 1 / 3}
    write_json(tmp_path / "shown.json", value)
    write_json(tmp_path / "exact.json", value, exact=True)
    assert json.loads((tmp_path / "shown.json").read_text()) == {"eps": 0.0, "third": 0.333333}
    assert json.loads((tmp_path / "exact.json").read_text()) == value


def test_a_folder_behind_a_link_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "old").touch()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "far")
    with replacing_folder(link) as folder:
        (folder / "new").touch()
    assert link.is_symlink()
    assert [path.name for path in (tmp_path / "far").iterdir()] == ["new"]


def test_a_folder_is_whole_while_its_former_one_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, seen = tmp_path / "model", list[list[str]]()
    target.mkdir()
    (target / "old").touch()
    delete = shutil.rmtree

    def watch(path: Path, **options: bool) -> None:
        if path.exists():
            seen.append(sorted(item.name for item in target.iterdir()))
        delete(path, **options)

    monkeypatch.setattr(shutil, "rmtree", watch)
    with replacing_folder(target) as folder:
        (folder / "new").touch()
    assert seen == [["new"]]
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_an_interrupt_between_two_renames_keeps_the_former_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, rename, renamed = tmp_path / "model", os.replace, list[Path]()
    target.mkdir()
    (target / "old").touch()

    def interrupt(source: Path, path: Path) -> None:
        renamed.append(path)
        if len(renamed) == 2:
            raise KeyboardInterrupt
        rename(source, path)

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt), replacing_folder(target) as folder:
        (folder / "new").touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["model", "old"]


def test_without_git_there_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ask_git(tmp_path, "rev-parse", "HEAD") is None


def test_a_file_behind_a_link_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "far")
    for text in ("old", "new"):
        with replacing(link) as temporary:
            temporary.write_text(text)
    assert link.is_symlink()
    assert (tmp_path / "far").read_text() == "new"


def test_a_pipe_gets_the_content_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_text)
        with replacing(pipe) as temporary:
            temporary.write_text("text")
        assert read.result() == "text"
    assert pipe.is_fifo()


def test_a_folder_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    for folder in (tmp_path, Path()):
        with pytest.raises(UsageError, match="names a folder"), replacing(folder):
            pass


@pytest.mark.parametrize("replace", [replacing, replacing_folder])
def test_an_error_names_the_path_that_the_user_gave(
    replace: Callable[[Path], AbstractContextManager[Path]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError, match="denied") as caught, replace(Path("m")) as temporary:
        raise PermissionError(errno.EACCES, "denied", str(temporary / "a"))
    assert caught.value.filename == "m/a"
    with pytest.raises(OSError, match="full") as caught, replace(Path("m")):
        raise OSError(errno.ENOSPC, "full")
    assert caught.value.filename == "m"
    with pytest.raises(OSError, match="denied") as caught, replace(Path("m")):
        raise PermissionError(errno.EACCES, "denied", "read.tsv")
    assert caught.value.filename == "read.tsv"


@pytest.mark.parametrize("replace", [replacing, replacing_folder])
def test_a_failure_removes_only_the_folders_that_it_made(
    replace: Callable[[Path], AbstractContextManager[Path]], tmp_path: Path
) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(ZeroDivisionError), replace(tmp_path / "a/b/c/d"):
        raise ZeroDivisionError

    def fail_late() -> None:
        with replace(tmp_path / "a/kept/d"):
            (tmp_path / "a/kept/other").touch()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_late()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "kept", "other"]


def test_other_bytes_than_recorded_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("a")
    check_digest(path, f"sha256:{digest_file(path)}", remedy="make it again")
    check_digest(path, digest_path(path), remedy="make it again")
    path.write_text("b")
    with pytest.raises(DataError, match=r"a: found another sha256 .*; make it again"):
        check_digest(path, "0" * 64, remedy="make it again")
    with pytest.raises(DataError, match="no such file; make it again"):
        check_digest(tmp_path / "b", "0" * 64, remedy="make it again")


def test_the_digest_of_a_folder_is_that_of_its_files_and_names(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/c").write_text("c")
    first = digest_path(tmp_path / "a")
    (tmp_path / "a/b/c").rename(tmp_path / "a/b/d")
    assert digest_path(tmp_path / "a") != first
