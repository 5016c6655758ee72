"""Tests of nlp_core/site/*breakdown.py and picture.py."""

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from nlp_core.config.model import read_model
from nlp_core.metrics import Predictions
from nlp_core.models.description import Node, describe_plan
from nlp_core.models.plan import plan_model
from nlp_core.report.comparison import read_comparison
from nlp_core.report.examples import Runs, TaskFacts, read_runs
from nlp_core.report.results import read_results
from nlp_core.site import review
from nlp_core.site.breakdown import Breakdown, is_number, list_questions, measure_f1
from nlp_core.site.picture import draw_lines, draw_model, draw_strip
from nlp_core.site.review import break_down, list_errors
from nlp_core.site.tag_breakdown import sort_error
from nlp_core.statistics.summands import TypedSpan

ROOT = Path(__file__).resolve().parent.parent


def make_runs(kind: str, *predictions: Predictions) -> Runs:
    facts = TaskFacts(
        kind=kind,
        labels=list(predictions[0].labels),
        metrics=[],
        report_split="test",
        scheme=None,
    )
    ids = tuple(range(10, 10 + len(predictions[0].target)))
    return Runs(facts, "test", "", "", ids, list(predictions))


def find(tables: list[Breakdown], title: str) -> Breakdown:
    return next(table for table in tables if table.title == title)


def read_tables(table: str, cell: str) -> list[Breakdown]:
    path = ROOT / "results" / "examples" / table / f"{cell}.parquet"
    return [item for section in list_errors(read_runs(path), ROOT) for item in section.tables]


@pytest.fixture
def labels() -> Runs:
    target = ["a", "a", "b"]
    first = Predictions(["a", "b"], target, ["a", "b", "b"], np.array([[0.9, 0.1]] * 3))
    second = Predictions(["a", "b"], target, ["a", "b", "a"], np.array([[0.6, 0.4]] * 3))
    return make_runs("classification", first, second)


def test_labels_are_crossed_and_the_surest_mistakes_come_first(labels: Runs) -> None:
    tables = break_down(labels)
    assert find(tables, "Confusion matrix").rows == [["a", "2", "2"], ["b", "1", "1"]]
    assert find(tables, "Confusion matrix").shares == [[0.5, 0.5], [0.5, 0.5]]
    assert find(tables, "By label").rows[0] == ["a", "2", "75.00", "50.00", "58.33"]
    assert find(tables, "Do seeds agree?").rows == [
        ["0 of 2", "1", "33.3"],
        ["1 of 2", "1", "33.3"],
        ["2 of 2", "1", "33.3"],
    ]
    assert find(tables, "Worst examples").rows == [
        ["11", "a", "b (2)", "2", "75.0"],
        ["12", "b", "b (1); a (1)", "1", "25.0"],
    ]


def test_several_labels_are_compared_as_sets() -> None:
    run = Predictions(["x", "y"], [["x", "y"], ["x"]], [["y", "x"], []])
    tables = break_down(make_runs("multi_label", run))
    assert find(tables, "Worst examples").rows == [["11", "x", ""]]


@pytest.mark.parametrize(
    ("kind", "right", "found"),
    [
        ("parsing", ["[A", "a", "[B", "b", "]", "]"], ["[A", "[B", "a", "]", "b", "]"]),
        ("document", ["x", "y"], ["y", "x"]),
    ],
)
def test_sequences_are_compared_in_their_order(
    kind: str, right: list[str], found: list[str]
) -> None:
    tables = break_down(make_runs(kind, Predictions([], [right, right], [right, found])))
    expected = ["11", ", ".join(right), ", ".join(found)]
    assert find(tables, "Worst examples").rows == [expected]


def test_tags_without_types_are_compared_as_they_are() -> None:
    run = Predictions(["NOUN", "VERB"], [["VERB", "NOUN"]] * 2, [["VERB", "NOUN"], ["VERB"] * 2])
    tables = break_down(make_runs("tagging", run))
    assert find(tables, "Do seeds agree?").rows == [
        ["0 of 1", "1", "50.0"],
        ["1 of 1", "1", "50.0"],
    ]
    assert find(tables, "Worst examples").rows == [["11", "VERB, NOUN", "VERB, VERB"]]


def test_a_label_that_training_never_saw_has_no_probability() -> None:
    run = Predictions([*"ab"], [*"ac"], [*"aa"], np.array([[0.9, 0.1], [0.8, 0.2]]))
    assert find(break_down(make_runs("classification", run)), "Worst examples").rows == [
        ["11", "c", "a", "0.0"]
    ]


def test_numbers_list_the_largest_errors() -> None:
    runs = [Predictions([], [1.0, 3.0], [1.5, 0.0]), Predictions([], [1.0, 3.0], [0.5, 2.0])]
    table = find(break_down(make_runs("regression", *runs)), "Furthest from the right number")
    assert table.rows == [["11", "3.00", "1.00", "2.00"], ["10", "1.00", "1.00", "0.50"]]


def test_a_question_has_the_rank_of_its_best_right_candidate() -> None:
    score = np.array([[0.5, 0.5], [0.5, 0.5], [0.9, 0.1], [0.2, 0.8], [0.3, 0.7]])
    run = Predictions(
        ["0", "1"], ["1", "0", "0", "1", "0"], ["0"] * 5, score, np.array([0, 0, 1, 1, 2])
    )
    tied, second = list_questions(make_runs("ranking", run))
    assert (tied.ranks, tied.right, tied.size) == ([2], [10], 2)  # equal scores rank it last
    assert (second.number, second.ranks, second.first) == (1, [1], 13)


def test_errors_of_entities_are_sorted() -> None:
    found = frozenset([TypedSpan("A", 0, 1), TypedSpan("B", 3, 3), TypedSpan("A", 5, 6)])
    assert sort_error(TypedSpan("A", 0, 1), found) == "right"
    assert sort_error(TypedSpan("A", 3, 3), found) == "wrong type"
    assert sort_error(TypedSpan("A", 6, 6), found) == "wrong ends"
    assert sort_error(TypedSpan("B", 6, 6), found) == "missed"


def test_intents_count_among_the_errors_of_a_sentence() -> None:
    run = Predictions(
        ["i", "j"],
        [{"label": "i", "tags": ["B-A", "O"]}],
        [{"label": "j", "tags": ["O", "B-A"]}],
    )
    tables = break_down(make_runs("intent_slots", run))
    assert find(tables, "Worst examples").rows == [["10", "2", "1", "A 0; intent", "A 1", "3.0"]]


def test_the_sums_agree_with_the_results() -> None:
    metrics = read_results("glue", ROOT).cells["cola_bilstm"].metrics
    counts = np.array(
        [
            [int(text.replace(",", "")) for text in row[1:]]
            for row in find(read_tables("glue", "cola_bilstm"), "Confusion matrix").rows
        ]
    )
    assert 100 * counts.trace() / counts.sum() == pytest.approx(metrics["dev.accuracy"].mean, 1e-6)
    agreed = find(read_tables("wikiqa", "cnn"), "By number of candidates").rows
    sizes = [int(row[1]) for row in agreed]
    mrr = sum(size * float(row[2]) for size, row in zip(sizes, agreed, strict=True)) / sum(sizes)
    metrics = read_results("wikiqa", ROOT).cells["cnn"].metrics
    assert mrr == pytest.approx(metrics["test.mrr"].mean, abs=0.01)  # two places


def test_tables_reviewed_side_by_side_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {name: read_comparison(name, ROOT) for name in ("sample", "slu")}
    found = []
    for cores in (1, 2):
        monkeypatch.setattr(review, "cpu_count", lambda cores=cores: cores)
        started = review.start_reviews(tables, ROOT)
        found.append({name: reviewed.result() for name, reviewed in started.items()})
    assert found[0] == found[1]
    assert found[0]["slu"].findings
    assert found[0]["slu"].errors["snips_joint_bilstm"][0].tables


def test_f1_without_entities_is_zero() -> None:
    assert measure_f1(0, 0, 0) == (0.0, 0.0, 0.0)
    assert measure_f1(1, 2, 4) == (50.0, 25.0, pytest.approx(100 / 3))


@pytest.mark.parametrize(("text", "expected"), [("1,024", True), ("-0.5", True), ("3 of 5", False)])
def test_a_text_is_a_number_or_not(text: str, expected: bool) -> None:
    assert is_number(text) is expected


@pytest.mark.parametrize(
    "name", ["wikiqa/bilstm_matchattn", "squad/bidaf", "slu/atis_joint_bilstm"]
)
def test_the_boxes_of_a_picture_do_not_overlap(name: str) -> None:
    nodes = describe_plan(plan_model(read_model(ROOT / "zoo" / f"{name}.json"), where=name))
    picture = draw_model(nodes)
    found = re.findall(r'<rect x="(-?\d+)" y="(\d+)" width="(\d+)" height="(\d+)"', picture)
    boxes = [tuple(map(int, box)) for box in found]
    assert len(boxes) == len(nodes)
    for idx, (x, y, width, _) in enumerate(boxes):
        assert x >= 0
        for other_x, other_y, other_width, _ in boxes[:idx]:
            assert y != other_y or x >= other_x + other_width or other_x >= x + width


def test_an_edge_passes_the_layers_between() -> None:
    nodes = [
        Node("input", "a", "tokens", None, [], [], "[B,T]", None),
        Node("layer", "b", "dropout", None, [], ["input_a"], "[B,T]", 0),
        Node("layer", "c", "<b>", None, [], ["layer_b", "input_a"], "[B,T]", 0),
    ]
    picture = draw_model(nodes)
    assert picture.count("<path") == 4  # a-b, b-c, and two for a-c
    assert "&lt;b&gt;" in picture


def test_a_strip_has_its_lowest_and_highest_value_at_the_edges() -> None:
    strip = draw_strip([1.0, 2.0, 3.0], published=5.0)
    assert re.findall(r'cx="([\d.]+)"', strip) == ["8.0", "41.5", "75.0"]
    assert 'class="published" d="M142.0' in strip
    assert re.findall(r'cx="([\d.]+)"', draw_strip([2.0, 2.0])) == ["75.0", "75.0"]


def test_curves_have_names_that_do_not_overlap() -> None:
    picture = draw_lines(
        {"x": [(0, 900.0), (10, 10.0)], "y": [(0, 800.0), (10, 10.1)]}, "Title", is_log=True
    )
    heights = [float(y) for y in re.findall(r'y="([\d.]+)" text-anchor="start"', picture)]
    assert abs(heights[0] - heights[1]) >= 14
    assert 'aria-label="Title"' in picture


def test_names_of_lines_that_meet_at_the_top_stay_inside_and_apart() -> None:
    lines = {f"seed {seed}": [(0, -3.0), (10, 94.0 + seed / 10)] for seed in range(5)}
    picture = draw_lines(lines, "Title")
    heights = [float(y) for y in re.findall(r'y="(-?[\d.]+)" text-anchor="start"', picture)]
    assert len(heights) == 5
    assert min(heights) > 10
    assert all(below - above >= 14 for below, above in pairwise(heights))
