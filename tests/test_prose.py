"""Text of the repository is free of the slips that CONVENTIONS.md lists under English."""

import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SLIPS = re.compile(
    r"\b("
    r"beside|anew|one's own|of one's|to be had|so many|at the begin|as (it|they) came"
    r"|stands? (beside|in|there|twice|alone)|lies? (in|beside|there|on)"
    r"|behind (it|that|them|which)|(told|tells?) \w*( \w+)? ?apart|other last bits"
    r"|(?<=\w )(?<!there )(is|are|was|were) no (?!longer)\w+"
    r"|what it (takes|has)|costs are no|goes on at|twice is once"
    r"|alone(?=[.,;:)]|$)"
    r")\b",
    re.IGNORECASE,
)
TEXTS = (".md", ".yaml", ".yml", ".json", ".toml", ".txt", ".html")
UNREAD = (
    "results/",
    "reports/golden/",
    "requirements.lock",
    "dvc.lock",
    "sources/",
    "CONVENTIONS.md",
)
"""Numbers, texts of others, pages made from texts read elsewhere, the page that lists the slips."""


LABELS = [
    label
    for path in sorted((ROOT / "sources").glob("*.yaml"))
    for label in re.findall(r'label: "(.+)"', path.read_text(encoding="utf-8"))
]
"""Of archives; reports repeat them."""


def list_files() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    kept = [name for name in listed.stdout.split() if not name.startswith(UNREAD)]
    return [
        name for name in kept if name.endswith((*TEXTS, ".py")) and name != "tests/test_prose.py"
    ]


def list_lines(name: str) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line; of code only comments and strings of some words."""
    content = (ROOT / name).read_text(encoding="utf-8")
    if not name.endswith(".py"):
        yield from enumerate(content.split("\n"), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(content).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            for offset, line in enumerate(token.string.split("\n")):
                if len(line.split()) > 2:
                    yield token.start[0] + offset, line


@pytest.mark.parametrize("name", list_files())
def test_text_is_plain(name: str) -> None:
    found = [
        f"{name}:{line}: {text.strip()}"
        for line, text in list_lines(name)
        if SLIPS.search(text) and not any(label in text for label in LABELS)
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "a killed cell goes on at step 3",
        "it stands in the file",
        "100-d vectors alone, frozen",
        "Trained anew.",
        "the folder is no trained model",
    ],
)
def test_a_slip_is_found(text: str) -> None:
    assert SLIPS.search(text)


@pytest.mark.parametrize(
    "text", ["besides", "stand-alone use", "leave it alone in the folder", "there is no file"]
)
def test_plain_words_pass(text: str) -> None:
    assert not SLIPS.search(text)
