"""Tests of nlp_core/report/headline.py."""

from pathlib import Path

import yaml
from fabricated import make_project, make_published

from nlp_core.config.published import PublishedTable
from nlp_core.report.comparison import compare
from nlp_core.report.evaluation import evaluate_table
from nlp_core.report.headline import (
    COLORS,
    NOT_RUN,
    SLOTS,
    ComparedNumber,
    Headline,
    Tally,
    count_outcomes,
    draw_headline,
    read_headline,
    stack,
)
from nlp_core.report.results import Results
from tests.test_gain import make_result

LOWER = """
title: Errors
description: A table for tests.
papers: {first: {name: First, citation: A paper}}
parts:
  - title: Less is better, and a trend
    paper: first
    columns: {rmse: test.rmse, F1: test.f1}
    rows:
      - {name: Less, cell: less, numbers: {rmse: {value: 2.0}, F1: {value: 50.0}}}
      - name: More
        cell: more
        numbers: {rmse: {value: 2.0}, F1: {value: 60.0, claim: trend, against: Less}}
"""


def make_tally(table: str, leads: list[float], *, num_not_run: int = 0) -> Tally:
    compared = [ComparedNumber("above" if lead > 0 else "below", lead) for lead in leads]
    return Tally(table, table.title(), compared, [], num_not_run)


def test_a_published_number_counts_once(tmp_path: Path) -> None:
    make_project(tmp_path)
    make_published(tmp_path)
    assert read_headline(tmp_path).tallies == []
    evaluate_table("trial", tmp_path)
    (tally,) = read_headline(tmp_path).tallies
    assert tally == Tally(
        table="trial",
        title="Trial",
        compared=[ComparedNumber("reproduced", -0.5), ComparedNumber("above", 10.0)],
        honest=[ComparedNumber("reproduced", -40.0)],
        num_not_run=2,
    )
    assert (tally.num_good, tally.num_below) == (2, 0)


def test_a_lead_is_positive_where_less_is_better_and_less() -> None:
    cells = {
        "less": make_result({"test.rmse": [1.5, 1.5], "test.f1": [50.0, 50.0]}),
        "more": make_result({"test.rmse": [3.0, 3.0], "test.f1": [40.0, 40.0]}),
    }
    published = PublishedTable.model_validate(yaml.safe_load(LOWER))
    (tally,) = count_outcomes([compare(published, Results(table="lower", cells=cells))]).tallies
    assert tally.compared == [
        ComparedNumber("above", 0.5),
        ComparedNumber("reproduced", 0.0),
        ComparedNumber("below", -1.0),
        ComparedNumber("below", -20.0),
    ]
    trend = LOWER.replace("60.0", "45.0")
    published = PublishedTable.model_validate(yaml.safe_load(trend))
    (tally,) = count_outcomes([compare(published, Results(table="lower", cells=cells))]).tallies
    assert tally.compared[-1] == ComparedNumber("reproduced", -5.0)


def test_the_total_adds_up() -> None:
    tallies = [make_tally("one", [1.0, -1.0]), make_tally("two", [2.0], num_not_run=3)]
    total = Headline(tallies).total
    assert (len(total.compared), total.num_good, total.num_below, total.num_not_run) == (3, 2, 1, 3)


def test_near_dots_have_different_heights() -> None:
    numbers = make_tally("one", [0.0, 0.1, -0.1, 5.0, 0.3, -0.2]).compared
    placed = stack(numbers)
    assert [number.lead for number, _ in placed] == [-0.2, -0.1, 0.0, 0.1, 0.3, 5.0]
    assert [height for _, height in placed] == [*SLOTS[:4], SLOTS[0], SLOTS[0]]
    crowd = stack(make_tally("one", [0.0] * (len(SLOTS) + 1)).compared)
    assert sorted({height for _, height in crowd}) == sorted(SLOTS)


def test_the_figure_has_a_dot_for_each_number_and_the_counts() -> None:
    tallies = [make_tally("one", [1.0, 2.0, -1.0]), make_tally("two", [], num_not_run=26)]
    svg = draw_headline(Headline([*tallies, make_tally("nothing", [])]))
    text = svg.decode()
    assert ">One</text>" in text
    assert "Nothing" not in text
    assert text.count(">not run</text>") == 2  # in the row, and in the legend
    assert ">26</text>" in text
    dots = [line for line in text.splitlines() if "<use" in line]
    assert sum(COLORS["above"] in line for line in dots) == 2 + 1  # and the legend
    assert sum(COLORS["below"] in line for line in dots) == 1 + 1
    assert sum(NOT_RUN in line for line in dots) == 1
    assert svg == draw_headline(Headline([*tallies, make_tally("nothing", [])]))
    assert b"<dc:date>" not in svg
