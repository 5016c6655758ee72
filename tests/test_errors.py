import errno
import os
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from nlp_core import errors
from nlp_core.errors import NlpCoreError, describe_os_error, exit_on_error

ROOT = Path(__file__).resolve().parent.parent


def list_errors(kind: type[NlpCoreError] = NlpCoreError) -> Iterator[type[NlpCoreError]]:
    yield kind
    for other in kind.__subclasses__():
        yield from list_errors(other)


for name in ("nlp_core.data.download", "nlp_core.data.tagging_scheme"):
    import_module(name)  # they derive errors of their own
ERRORS = [*dict.fromkeys(list_errors())]


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_an_error_names_a_page_and_a_heading_that_exist(kind: type[NlpCoreError]) -> None:
    path, _, anchor = kind.page.partition("#")
    text = (ROOT / path).read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert not anchor or anchor in slugs


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_a_message_ends_with_the_page(
    kind: type[NlpCoreError], capsys: pytest.CaptureFixture[str]
) -> None:
    raised = kind.__new__(kind)
    NlpCoreError.__init__(raised, "reviews.tsv:\n found 'a'. Did you mean 'b'?")
    with pytest.raises(SystemExit) as caught, exit_on_error():
        raise raised
    assert caught.value.code == kind.exit_code
    expected = f"{kind.label}: reviews.tsv: found 'a'. Did you mean 'b'? See {kind.page}.\n"
    assert capsys.readouterr().err == expected


def test_a_message_without_a_full_stop_gets_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit), exit_on_error():
        raise errors.ConfigError("allowed: a, b")
    assert capsys.readouterr().err == "error: allowed: a, b. See docs/params.md.\n"


def test_an_interrupt_has_its_own_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught, exit_on_error():
        raise KeyboardInterrupt
    assert caught.value.code == errors.EXIT_INTERRUPTED
    assert capsys.readouterr().err == "interrupted\n"


def test_the_nearest_name_is_suggested() -> None:
    assert errors.suggest("rt", ["rte", "cola"]) == "Did you mean 'rte'?"
    assert errors.suggest("zzz", ["rte", "cola"]) == "Allowed: cola, rte."
    assert errors.suggest("zzz", []) == "Nothing is allowed here."


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device", "a.json"),
        OSError(None, "I/O error: No space left on device (os error 28)", "a.json"),
        OSError(errno.EFBIG, "File too large", "a.json"),
    ],
)
def test_a_full_disk_is_one_paragraph(error: OSError, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught, exit_on_error():
        raise error
    assert caught.value.code == 2
    shown = capsys.readouterr().err
    assert shown.startswith("error: ")
    assert "Make space on the disk and run the same command again" in shown
    assert "Make space" not in describe_os_error(PermissionError(13, "Permission denied", "b"))


def test_a_file_without_permission_is_plainly_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.tsv"
    path.touch()
    error = PermissionError(errno.EACCES, "Permission denied", str(path))
    assert f"{path}: you have no permission to write there;" in describe_os_error(error)
    monkeypatch.setattr("os.access", lambda path, mode: mode != os.R_OK)
    assert f"{path}: you have no permission to read it;" in describe_os_error(error)
