from pathlib import Path

import pytest
from fabricated import make_project, make_published

from nlp_core.errors import DataError
from nlp_core.report.evaluation import evaluate_table
from nlp_core.report.summary import fill_markers, render_summary, update_readme
from nlp_core.report.table import read_comparison

ROOT = Path(__file__).resolve().parent.parent
README = "# Title\n\n<!-- table:trial -->\nformer\n<!-- /table -->\n\nend\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_project(tmp_path)
    make_published(tmp_path)
    evaluate_table("trial", tmp_path)
    return tmp_path


def test_a_summary_has_the_shape_of_the_papers_table(root: Path) -> None:
    lines = render_summary(read_comparison("trial", root)).splitlines()
    assert lines[0].startswith("**[Trial](reports/trial.md)**: 1 number measured")
    assert lines[2:6] == [
        "| Ranking | AUC | MAP |",
        "| --- | --- | --- |",
        "| Alpha | **87.50** (88.00) | 87.50 |",
        "| Delta | - (91.00) |  |",
    ]
    assert "| Beta | **100.0** (90.0) |" in lines


def test_the_readme_is_written_between_its_markers_only(root: Path) -> None:
    path = root / "README.md"
    path.write_text(README)
    assert update_readme(path, root)
    text = path.read_text()
    assert text.startswith("# Title\n\n<!-- table:trial -->\n**[Trial]")
    assert text.endswith(" |\n<!-- /table -->\n\nend\n")
    assert "former" not in text
    assert not update_readme(path, root)


def test_a_table_without_results_says_how_to_make_them(root: Path) -> None:
    (root / "results" / "trial.json").unlink()
    text = fill_markers("<!-- table:trial -->\n<!-- /table -->\n", root, where="README.md")
    assert "Not measured yet: `snakemake --cores 2 reports/trial.md`" in text


@pytest.mark.parametrize(
    "text", ["<!-- table:trial -->\n", "x <!-- table:trial -->\n<!-- /table -->"]
)
def test_a_marker_without_its_end_is_refused(root: Path, text: str) -> None:
    with pytest.raises(DataError, match=r"README\.md: found a marker"):
        fill_markers(text, root, where="README.md")


def test_the_projects_readme_is_current() -> None:
    text = (ROOT / "README.md").read_text()
    assert fill_markers(text, ROOT, where="README.md") == text, (
        "run python -m stages.report --readme"
    )
