"""Mistakes in files of published numbers, and in results that were edited by hand."""

from pathlib import Path

import pytest
from fabricated import PUBLISHED, root

from nlp_core.errors import ConfigError, DataError
from nlp_core.report.comparison import read_comparison
from nlp_core.report.results import Score, summarise
from nlp_core.report.table import write_report

__all__ = ["root"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "AUC: test.auc",
            "AUC: test.acu",
            r"found 'test.acu', by which 'alpha' is not measured. Did",
        ),
        ("value: 88.0", "value: 8800.0", "found 8800, expected points, which are 100 at most"),
        (
            "{value: 92.0}",
            "{value: 92.0, claim: trend, against: Beta}",
            "unknown row 'Beta'",
        ),
    ],
)
def test_a_wrong_number_is_an_error(root: Path, old: str, new: str, message: str) -> None:
    assert old in PUBLISHED
    (root / "reports/published/trial.yaml").write_text(PUBLISHED.replace(old, new))
    with pytest.raises(ConfigError, match=message):
        read_comparison("trial", root)


def test_a_cell_that_no_grid_has_needs_a_reason(root: Path) -> None:
    path = root / "reports/published/trial.yaml"
    write_report("trial", root)
    path.write_text(PUBLISHED.replace("cell: epsilon", "cell: epsilom"))
    with pytest.raises(ConfigError, match="column 'AUC': unknown cell 'epsilom'"):
        write_report("trial", root)
    path.write_text(PUBLISHED.replace("cell: delta", "cell: deltoid"))  # it has a reason
    write_report("trial", root)


def test_results_follow_from_their_values(root: Path) -> None:
    assert summarise([1.0, 2.0, 4.0]).follows
    assert not Score(mean=2.0, sd=0.0, n=2, values=[1.0, 2.0]).follows
    assert not Score(mean=float("nan"), sd=0.0, n=1, values=[float("nan")]).follows
    path = root / "results/trial.json"
    text = path.read_text()
    assert '"mean": 87.5' in text
    path.write_text(text.replace('"mean": 87.5', '"mean": 99.9'))
    with pytest.raises(DataError, match=r"cells\.alpha\.metrics\..*: found a mean of 99\.9"):
        read_comparison("trial", root)
