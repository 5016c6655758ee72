"""Tests of the parts of README.md that nlp_core/report/headline.py writes, and of README.md."""

import re
import shlex
from pathlib import Path

import pytest
from fabricated import root

from nlp_core.cli import main
from nlp_core.errors import ConfigError, DataError
from nlp_core.report.headline import (
    FIGURE,
    draw_headline,
    fill_markers,
    read_headline,
    update_readme,
)
from tests.user_files import make_texts

__all__ = ["root"]
ROOT = Path(__file__).resolve().parent.parent
README = """# Title

<!-- generated:headline -->
former
<!-- /generated -->

<!-- generated:tables -->
<!-- /generated -->

end
"""
MOST_LINES = 100
MOST_COMMANDS = 5  # of a box
MOST_ROWS = 14
HINT = "run python -m stages.report --readme"


def read_boxes() -> dict[str, list[str]]:
    """Return the command lines of each section of README.md."""
    boxes = {}
    for section in re.split(r"^## ", (ROOT / "README.md").read_text(), flags=re.MULTILINE)[1:]:
        title, _, text = section.partition("\n")
        lines = [line[4:] for line in text.splitlines() if line.startswith("    ")]
        boxes[title] = "\n".join(lines).replace("\\\n", "").splitlines()
    return boxes


def test_the_readme_is_written_between_its_markers_only(root: Path) -> None:
    path = root / "README.md"
    path.write_text(README)
    assert update_readme(path, root)
    lines = path.read_text().splitlines()
    assert lines[:6] == [
        "# Title",
        "",
        "<!-- generated:headline -->",
        "**2 numbers compared with published ones: 2 reproduced or above, 0 below.",
        "2 published numbers are not run**; the reports give the reasons. For 1 of the compared "
        "numbers the paper",
        "chose the epoch on the reported split, and so do we. With the epoch chosen on held-out "
        "data, 1 of these 1 are reproduced or above.",
    ]
    assert lines[8:] == [
        "<!-- generated:tables -->",
        "| table | compared | reproduced or above | below | not run | report |",
        "| --- | --- | --- | --- | --- | --- |",
        "| Trial | 2 | 2 | 0 | 2 | [trial](reports/trial.md) |",
        "| all | 2 | 2 | 0 | 2 |  |",
        "<!-- /generated -->",
        "",
        "end",
    ]
    assert (root / FIGURE).read_bytes() == draw_headline(read_headline(root))
    assert not update_readme(path, root)


@pytest.mark.parametrize(
    "text", ["<!-- generated:tables -->\n", "x <!-- generated:tables -->\n<!-- /generated -->"]
)
def test_a_marker_without_its_end_is_an_error(root: Path, text: str) -> None:
    with pytest.raises(DataError, match=r"README\.md: found a marker"):
        fill_markers(text, read_headline(root), where="README.md")


def test_an_unknown_marker_is_an_error(root: Path) -> None:
    text = "<!-- generated:table -->\n<!-- /generated -->"
    with pytest.raises(ConfigError, match=r"'generated:table'\. Did you mean 'tables'"):
        fill_markers(text, read_headline(root), where="README.md")


def test_the_projects_readme_and_figure_are_current() -> None:
    headline = read_headline(ROOT)
    text = (ROOT / "README.md").read_text()
    assert fill_markers(text, headline, where="README.md") == text, HINT
    assert (ROOT / FIGURE).read_bytes() == draw_headline(headline), HINT


def test_the_projects_readme_is_short() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= MOST_LINES
    assert sum(line.startswith("| ") for line in lines) <= MOST_ROWS + 2  # and the header
    boxes = read_boxes()
    for title in ("Reproduce a table", "Train on your own file", "Serve it"):
        assert 0 < len(boxes[title]) <= MOST_COMMANDS


def test_the_links_of_the_readme_lead_to_files() -> None:
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.slow
def test_the_commands_for_a_users_file_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGLUE_CACHE", str(tmp_path / "cache"))
    for name, rows in (("reviews.csv", 40), ("later.csv", 10)):
        lines = [f"{text},{label}" for text, label in make_texts(rows, seed=rows)]
        (tmp_path / name).write_text("\n".join(["text,label", *lines]) + "\n")
    boxes = read_boxes()
    for line in boxes["Train on your own file"] + boxes["Serve it"]:
        program, *arguments = shlex.split(line, comments=True)
        if program == "reglue" and arguments[0] != "serve":
            main(arguments)
    assert len((tmp_path / "predicted.csv").read_text().splitlines()) == 11
    assert (tmp_path / "artifacts" / "bundles" / "reviews" / "bundle.json").exists()
    assert "the same label for 10 of 10 examples" in capsys.readouterr().out
