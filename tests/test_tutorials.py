"""Every console block of the pages runs and prints what the page shows; shell blocks are parsed."""

import re
import shlex
from pathlib import Path

import pytest

from nlp_core.cli import program
from tests.console import DOCS, ROOT, Example, compare, read_examples, run_program, run_reglue
from tests.test_determinism import make_sample_project
from tests.tiny_service import running_process
from tests.user_files import write_tsv

ENGINEER, REPRODUCER = DOCS / "tutorial-engineer.md", DOCS / "tutorial-reproducer.md"
EXPORT, SERVING, NUMBERS = DOCS / "export.md", DOCS / "serving.md", DOCS / "seven-numbers.md"
RUN_HERE = (ENGINEER, REPRODUCER, EXPORT, SERVING, NUMBERS)
RUN_ELSEWHERE = DOCS / "command-line.md"
SERVE, ADDRESS = "reglue serve ", "127.0.0.1:8000"
FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def run_page(page: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Run the commands of a page in turn; a served model answers those that come after it."""
    examples = list(read_examples(page))
    served = next((idx for idx, item in enumerate(examples) if item.command.startswith(SERVE)), -1)
    if served < 0:
        run_all(examples, folder, capsys)
        return
    run_all(examples[:served], folder, capsys)
    bundles = shlex.split(examples[served].command)[2:]
    with running_process(*bundles, folder=folder) as (_, port):
        names = ", ".join(find_name(bundle) for bundle in bundles)
        compare(f"serving {names} at http://{ADDRESS}", examples[served])
        moved = [
            item._replace(command=item.command.replace("localhost:8000", f"127.0.0.1:{port}"))
            for item in examples[served + 1 :]
        ]
        run_all(moved, folder, capsys)


def find_name(bundle: str) -> str:
    return bundle.partition("=")[0] if "=" in bundle else Path(bundle).name


def run_all(examples: list[Example], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for example in examples:
        if example.command.startswith("reglue "):
            run_reglue(example, capsys)
        else:
            run_program(example, folder)


@pytest.mark.slow
def test_the_pages_on_a_users_model_run_one_after_the_other(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = re.findall(r"```python\n(.+?)```", ENGINEER.read_text("utf-8"), re.DOTALL)
    (place / "make_reviews.py").write_text(code, encoding="utf-8")
    monkeypatch.setenv("COLUMNS", "100")
    for page in (ENGINEER, EXPORT, SERVING):
        run_page(page, place, capsys)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_the_tutorial_for_reproducers_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_sample_project(tmp_path / "project").root
    for name in ("reports/golden", "reports/probe.json"):
        (folder / name).symlink_to(ROOT / name)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    run_page(REPRODUCER, folder, capsys)


@pytest.mark.slow
def test_the_commands_on_famous_numbers_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("zoo", "sources", "reports", "results", "params.yaml", "grid"):
        (tmp_path / name).symlink_to(ROOT / name)
    write_tsv(tmp_path / "train.csv", rows=40, header="text\tlabel")
    lines = (tmp_path / "train.csv").read_text("utf-8").replace("\t", ",").splitlines(True)
    (tmp_path / "train.csv").write_text("".join(lines), encoding="utf-8")
    (tmp_path / "leaked.csv").write_text("".join(lines[:21]), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    run_page(NUMBERS, tmp_path, capsys)


def test_every_page_with_console_blocks_is_run() -> None:
    found = {page for page in DOCS.glob("*.md") if list(read_examples(page))}
    assert found == {*RUN_HERE, RUN_ELSEWHERE}
    assert "```console" not in (ROOT / "README.md").read_text("utf-8")


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_the_commands_in_shell_blocks_have_arguments_that_exist(page: Path) -> None:
    blocks, commands = FENCE.findall(page.read_text("utf-8")), program.find_commands()
    for block in [text for language, text in blocks if language in ("", "sh")]:
        for line in block.replace("\\\n", "").splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["reglue"] and "--help" not in words:
                program.build_parser({words[1]: commands[words[1]]}).parse_args(words[1:])
