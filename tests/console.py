"""Console blocks of the documentation: read them, run their commands, compare the output."""

import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from nlp_core.cli import main

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
MORE = "..."
EXIT_USER_ERROR = 2


class Example(NamedTuple):
    """A command, and the lines that it prints: `...` stands for any lines, or the rest of one."""

    command: str
    expected: list[str]


def read_examples(page: Path) -> Iterator[Example]:
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *lines = part.replace("\\\n", "").rstrip("\n").split("\n")
            yield Example(command, lines)


def run_reglue(example: Example, capsys: pytest.CaptureFixture[str]) -> None:
    """Run a command of `reglue` in this process and compare its output and exit code.

    `echo TEXT | reglue ...` gives the command a text as its standard input.
    """
    *before, after = example.command.split(" | ")
    program, *arguments = shlex.split(after)
    assert program == "reglue"
    code: object = 0
    with pytest.MonkeyPatch.context() as patch:
        if before:
            echo, text = shlex.split(*before)
            assert echo == "echo"
            patch.setattr(sys, "stdin", io.StringIO(f"{text}\n"))
        try:
            main(arguments)
        except SystemExit as caught:
            code = caught.code
    output = capsys.readouterr()
    assert code == (EXIT_USER_ERROR if is_error(example) else 0), output.err
    compare(output.err + output.out, example)


def run_program(example: Example, folder: Path) -> None:
    """Run any other command in a process of its own; `python` is this interpreter."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        shlex.split(example.command),
        cwd=folder,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    compare(done.stderr + done.stdout, example)


def is_error(example: Example) -> bool:
    return bool(example.expected) and example.expected[0].startswith("error: ")


def compare(output: str, example: Example) -> None:
    """Find each expected line in the output, in this order; extra spaces do not matter."""
    expected = [" ".join(line.split()) for line in example.expected]
    found = [" ".join(line.split()) for line in output.splitlines()]
    for idx, line in enumerate(expected):
        if line == MORE:
            continue
        is_next = idx == 0 or expected[idx - 1] != MORE
        places = [place for place, text in enumerate(found) if is_shown(line, text)]
        assert places, f"{example.command}: {line!r} is not among\n" + "\n".join(found)
        assert not is_next or places[0] == 0, f"{example.command}: {line!r} does not follow"
        found = found[places[0] + 1 :]
    assert not found or not expected or expected[-1] == MORE, f"{example.command}: {found}"


def is_shown(line: str, text: str) -> bool:
    """Say whether a line of output begins as the page says."""
    parts = [re.escape(part.strip()) for part in line.split(MORE)]
    return bool(re.match(r"\s*.*?".join(parts), text)) if line else not text
