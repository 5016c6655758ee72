from pathlib import Path

import pytest
from fabricated import PUBLISHED, find_entry, make_published, root

from nlp_core.config.published import NumberConfig, read_published
from nlp_core.report.comparison import compare, judge, judge_trend, read_comparison
from nlp_core.report.headline import count_outcomes
from nlp_core.report.markdown import summarise_outcomes
from nlp_core.report.results import summarise

__all__ = ["root"]


@pytest.mark.parametrize(
    ("published", "outcome", "text"),
    [
        # 90 plus or minus 4.303 x 1 x sqrt(4 / 3) = 4.968, and 0.05 for the rounding
        (94.9, "reproduced", "reproduced"),
        (95.0, "reproduced", "reproduced"),
        (95.1, "below", "below by 5.10"),
        (85.0, "reproduced", "reproduced"),
        (84.9, "above", "above"),
    ],
)
def test_a_verdict_asks_for_one_more_run(published: float, outcome: str, text: str) -> None:
    ours = summarise([89.0, 90.0, 91.0])
    assert judge(NumberConfig(value=published), ours, 1) == (outcome, text)


def test_equal_seeds_expect_their_own_score() -> None:
    ours = summarise([90.0, 90.0])
    assert judge(NumberConfig(value=90.0), ours, 2).outcome == "reproduced"
    assert judge(NumberConfig(value=90.01), ours, 2) == ("below", "below by 0.01")


def test_one_run_has_no_verdict() -> None:
    assert judge(NumberConfig(value=90.0), summarise([90.0]), 2).outcome == "no verdict"


def test_other_hardware_has_a_difference_and_no_verdict(root: Path) -> None:
    path = root / "reports" / "published" / "trial.yaml"
    claimed = PUBLISHED.replace("value: 88.0\n", "value: 88.0\n            claim: other_hardware\n")
    path.write_text(claimed)
    comparison = read_comparison("trial", root)
    entry = find_entry(comparison, "Alpha", "AUC")
    assert entry.difference == pytest.approx(-0.5)
    assert entry.verdict == ("no verdict", "no verdict: other hardware")
    assert "1 without a verdict" in summarise_outcomes(comparison.entries)
    (tally,) = count_outcomes([comparison]).tallies
    path.write_text(PUBLISHED)
    (judged,) = count_outcomes([read_comparison("trial", root)]).tallies
    assert len(tally.compared) == len(judged.compared) - 1


def test_verdict_without_a_published_number() -> None:
    assert judge(NumberConfig(), summarise([90.0, 91.0]), 2).outcome == "ours"


@pytest.mark.parametrize(
    ("ours", "published", "outcome"),
    [(0.5, 4.7, "trend"), (-0.5, 4.7, "no trend"), (-2.0, -0.3, "trend"), (0.0, 1.0, "no trend")],
)
def test_a_trend_is_the_sign_of_a_difference(ours: float, published: float, outcome: str) -> None:
    assert judge_trend(ours, published, "BiLSTM").outcome == outcome


def test_a_measured_number_is_compared(root: Path) -> None:
    entry = find_entry(read_comparison("trial", root), "Alpha", "AUC")
    assert entry.ours is not None
    assert entry.ours.mean == 87.5
    assert entry.difference == pytest.approx(-0.5)
    assert entry.verdict == ("reproduced", "reproduced")


def test_a_metric_of_our_own_stands_beside_nothing(root: Path) -> None:
    entry = find_entry(read_comparison("trial", root), "Alpha", "MAP")
    assert entry.difference is None
    assert entry.verdict.outcome == "ours"


def test_both_ways_of_choosing_the_epoch_have_a_verdict(root: Path) -> None:
    comparison = read_comparison("trial", root)
    assert find_entry(comparison, "Beta", "accuracy", "paper").verdict.text == "above"
    assert find_entry(comparison, "Beta", "accuracy").verdict.text == "reproduced"


def test_what_is_not_run_says_why(root: Path) -> None:
    comparison = read_comparison("trial", root)
    assert find_entry(comparison, "Delta", "AUC").verdict.text == "not run [time]"
    assert (
        find_entry(comparison, "Epsilon", "AUC").verdict.text
        == "not run: that cell is not measured"
    )
    assert find_entry(comparison, "Reference", "AUC").verdict.outcome == "reference"


def test_a_cell_that_no_grid_shows_is_not_hidden(root: Path) -> None:
    entry = find_entry(read_comparison("trial", root), "gamma", "test.f1")
    assert entry.ours is not None
    assert entry.verdict.outcome == "ours"


def test_results_win_over_a_claim_of_not_run(root: Path) -> None:
    path = make_published(root)
    path.write_text(
        PUBLISHED.replace("cell: delta", "cell: gamma")
        .replace("cell: alpha", "cell: gamma")
        .replace("AUC: test.auc", "AUC: test.f1")
    )
    entry = find_entry(read_comparison("trial", root), "Delta", "AUC")
    assert entry.verdict.text == "no verdict: one run"


def test_a_trend_needs_both_rows(root: Path) -> None:
    text = PUBLISHED.replace("{value: 92.0}", "{value: 92.0, claim: trend, against: Alpha}")
    path = make_published(root)
    results = read_comparison("trial", root).results
    path.write_text(text.replace("cell: epsilon", "cell: alpha"))
    held = find_entry(compare(read_published(path), results), "Epsilon", "AUC")
    assert held.verdict.text == "no trend: +0.00 to Alpha, paper +4.00"
    path.write_text(
        text.replace("cell: epsilon", "cell: alpha").replace("against: Alpha", "against: Delta")
    )
    open_one = find_entry(compare(read_published(path), results), "Epsilon", "AUC")
    assert open_one.verdict.text == "trend: nothing to compare with in Delta"
    assert summarise_outcomes([open_one]) == "1 number measured: 1 with nothing to compare with."


def test_a_row_of_another_tables_cells_says_where_they_are(root: Path) -> None:
    text = PUBLISHED.replace("cell: epsilon", "cell: epsilon\n        table: sample")
    path = make_published(root)
    results = read_comparison("trial", root).results
    path.write_text(text)
    entry = find_entry(compare(read_published(path), results), "Epsilon", "AUC")
    assert entry.verdict == ("reference", "see table sample")
    path.write_text(text.replace("cell: epsilon", "cell: alpha"))
    assert find_entry(compare(read_published(path), results), "Epsilon", "AUC").ours is not None


def test_where_no_paper_chose_the_honest_number_comes_first(root: Path) -> None:
    path = make_published(root)
    results = read_comparison("trial", root).results
    path.write_text(PUBLISHED.replace("selection: paper", "selection: both"))
    entries = compare(read_published(path), results).parts[1].entries
    assert [entry.selection for entry in entries] == ["honest", "paper"]
