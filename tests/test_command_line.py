"""Every command of docs/command-line.md runs and prints what stands there."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from nlp_core.cli import COMMANDS, main

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "command-line.md"
MORE = "..."
NAMES = "EU NNP I-NP I-ORG\nrejects VBZ I-VP O\n\nPeter NNP I-NP I-PER\nBonn NNP I-NP I-LOC\n"


def examples() -> Iterator[tuple[str, list[str]]]:
    """Yield each command and the lines that it prints."""
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *lines = part.rstrip("\n").split("\n")
            yield command, lines


EXAMPLES = list(examples())


def is_shown(line: str, text: str) -> bool:
    return text.startswith(line) if line else not text


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("zoo", "datasets", "reports", "results", "params.yaml"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "names.txt").write_text(NAMES)
    model = json.loads((ROOT / "zoo" / "sample" / "sentence_bilstm.json").read_text())
    lstm = next(layer for layer in model["layers"] if layer["name"] == "lstm")
    lstm["hidden"] = lstm.pop("hidden_dim")
    (tmp_path / "wrong.json").write_text(json.dumps(model))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def test_the_page_has_every_command() -> None:
    shown = {command.split()[1] for command, _ in EXAMPLES}
    assert shown == set(COMMANDS)


@pytest.mark.parametrize(("command", "expected"), EXAMPLES, ids=[item[0] for item in EXAMPLES])
@pytest.mark.usefixtures("project")
def test_a_command_prints_what_the_page_says(
    command: str, expected: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    program, *arguments = shlex.split(command)
    assert program == "reglue"
    code: object = 0
    try:
        main(arguments)
    except SystemExit as caught:
        code = caught.code
    assert code == (2 if expected[0].startswith("error: ") else 0)
    output = capsys.readouterr()
    found = [" ".join(line.split()) for line in (output.out + output.err).splitlines()]
    for idx, line in enumerate(" ".join(line.split()) for line in expected):
        if line == MORE:
            continue
        is_next = idx == 0 or expected[idx - 1] != MORE
        places = [place for place, text in enumerate(found) if is_shown(line, text)]
        assert places, f"{line!r} is not among\n" + "\n".join(found)
        assert not is_next or places[0] == 0, f"{line!r} does not follow"
        found = found[places[0] + 1 :]
    assert not found or expected[-1] == MORE
