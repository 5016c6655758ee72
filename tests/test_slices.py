"""Scores of slices: means by hand, traits with one slice, and the committed cells."""

from pathlib import Path

import numpy as np
import pytest

from nlp_core.data.audit.traits import Traits, find_traits, read_traits
from nlp_core.metrics import Predictions
from nlp_core.metrics.retrieval import score_queries
from nlp_core.report.examples import find_examples, read_runs
from nlp_core.report.results import read_results
from nlp_core.site.breakdown import Breakdown
from nlp_core.site.review import break_down, list_errors
from nlp_core.site.slices import slice_scores
from tests.test_breakdown import find, make_runs

ROOT = Path(__file__).resolve().parent.parent
TITLES = ["By length", "By unseen words", "By overlap with train"]


def make_traits(words: list[int], unseen: list[int], in_train: list[bool]) -> Traits:
    ids = np.arange(10, 10 + len(words), dtype=np.int32)
    numbers = (np.asarray(values, np.int32) for values in (words, unseen))
    return Traits(ids, *numbers, np.asarray(in_train))


def read_tables(table: str, cell: str) -> list[Breakdown]:
    (section,) = list_errors(read_runs(find_examples(table, cell, ROOT)), ROOT)
    return section.tables


@pytest.fixture
def traits() -> Traits:
    return make_traits([5, 6, 41, 0], [0, 1, 7, 0], [True, False, False, False])


def test_the_mean_of_each_slice_is_over_examples_and_seeds(traits: Traits) -> None:
    ids = [12, 10, 11]  # in another order, and not all of the split
    scores_SN = np.array([[1.0, 2.0, 3.0], [2.0, 5.0, 6.0]])
    tables = slice_scores(traits, "examples", "points", ids, scores_SN)
    assert [table.title for table in tables] == TITLES
    assert tables[0].header == ["words", "examples", "points"]
    assert tables[0].rows == [
        ["1 to 5", "1", "3.50"],
        ["6 to 10", "1", "4.50"],
        ["41 or more", "1", "1.50"],
    ]
    expected = [["0", "1", "3.50"], ["1", "1", "4.50"], ["2 or more", "1", "1.50"]]
    assert tables[1].rows == expected
    assert tables[2].rows == [["in train", "1", "3.50"], ["not in train", "2", "3.00"]]


def test_a_text_without_words_has_a_slice(traits: Traits) -> None:
    tables = slice_scores(traits, "examples", "points", [10, 13], np.array([[1.0, 2.0]]))
    assert tables[0].rows == [["0", "1", "2.00"], ["1 to 5", "1", "1.00"]]


def test_a_trait_with_one_slice_gives_no_table() -> None:
    traits = make_traits([3, 4], [0, 2], [False, False])
    tables = slice_scores(traits, "examples", "points", [10, 11], np.ones((1, 2)))
    assert [table.title for table in tables] == ["By unseen words"]


def test_without_traits_of_each_example_there_is_no_slice(traits: Traits) -> None:
    assert slice_scores(None, "examples", "points", [10, 11], np.ones((1, 2))) == []
    assert slice_scores(traits, "examples", "points", [10, 99], np.ones((1, 2))) == []


def test_each_kind_has_its_score(traits: Traits) -> None:
    labels = Predictions(["a", "b"], [*"abab"], [*"abaa"])
    table = find(break_down(make_runs("classification", labels), traits), TITLES[2])
    assert table.rows == [["in train", "1", "100.00"], ["not in train", "3", "66.67"]]
    assert table.header[1:] == ["examples", "right, %"]
    numbers = Predictions([], [1.0, 2.0, 3.0, 4.0], [1.5, 2.0, 3.0, 7.0])
    table = find(break_down(make_runs("regression", numbers), traits), TITLES[2])
    assert table.rows == [["in train", "1", "0.50"], ["not in train", "3", "1.00"]]
    assert table.header[-1] == "error"
    score = np.array([[0.4, 0.6], [0.5, 0.5], [0.1, 0.9], [0.2, 0.8]])
    ranked = Predictions(["0", "1"], [*"0110"], ["0"] * 4, score, np.array([0, 0, 1, 1]))
    table = find(break_down(make_runs("ranking", ranked), traits), TITLES[2])
    assert table.rows == [["in train", "1", "50.00"], ["not in train", "1", "100.00"]]
    assert table.header[1:] == ["questions", "MRR"]
    searched = Predictions(["0", "1"], [*"0110"], [9, 4, 1, 9], None, np.array([0, 0, 1, 1]))
    table = find(break_down(make_runs("retrieval", searched), traits), TITLES[2])
    assert table.rows == [["in train", "1", "25.00"], ["not in train", "1", "100.00"]]
    assert table.header[1:] == ["queries", "MRR"]


def test_tags_keep_their_own_slices_by_length(traits: Traits) -> None:
    right = [["B-A"], ["O"], ["B-A"], ["O"]]
    run = Predictions(["B-A", "O"], right, [["B-A"], ["B-A"], ["B-A"], ["O"]])
    tables = break_down(make_runs("tagging", run), traits)
    (by_length,) = (table for table in tables if table.title == TITLES[0])
    assert by_length.header[:2] == ["tokens", "entities"]
    assert find(tables, TITLES[1]).rows == [
        ["0", "2", "100.00"],
        ["1", "1", "0.00"],
        ["2 or more", "1", "100.00"],
    ]


def average(tables: list[Breakdown], title: str) -> float:
    rows = [(int(row[1].replace(",", "")), float(row[2])) for row in find(tables, title).rows]
    return sum(size * score for size, score in rows) / sum(size for size, _ in rows)


@pytest.mark.parametrize("title", TITLES)
@pytest.mark.parametrize(
    ("table", "cell", "metric"),
    [("glue", "cola_bilstm", "dev.accuracy"), ("wikiqa", "cnn", "test.mrr")],
)
def test_the_slices_of_committed_cells_sum_to_the_result(
    table: str, cell: str, metric: str, title: str
) -> None:
    expected = read_results(table, ROOT).cells[cell].metrics[metric].mean
    assert average(read_tables(table, cell), title) == pytest.approx(expected, abs=0.01)


def test_the_slices_of_queries_sum_to_their_mean_reciprocal_rank() -> None:
    (runs,) = read_runs(find_examples("retrieval", "wikiqa_bilstm", ROOT))
    # the results count only ranks up to 10
    scores = [score_queries("mrr@1000000", run).mean() for run in runs.predictions]
    found = average(read_tables("retrieval", "wikiqa_bilstm"), TITLES[0])
    assert found == pytest.approx(100 * np.mean(scores), abs=0.01)


def test_every_committed_example_has_traits() -> None:
    cells = [("glue", "mrpc_bilstm"), ("slu", "atis_joint_bilstm"), ("parsing", "atis_rnng")]
    cells += [("dialogue", "sample_history"), ("dialogue", "sample_sentences_crf")]
    for table, cell in cells:
        for runs in read_runs(find_examples(table, cell, ROOT)):
            traits = read_traits(find_traits(runs.name, ROOT), runs.task.report_split)
            assert {*runs.ids} <= {*traits.id.tolist()}
