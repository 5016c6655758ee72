import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import f1_score as seqeval_f1
from seqeval.scheme import IOBES

from nlp_core.data.tagging_scheme import write_tags
from nlp_core.errors import ConfigError, DataError
from nlp_core.kinds import KINDS
from nlp_core.metrics import METRICS, Predictions, check_metrics, measure
from nlp_core.statistics import build_score
from reglue_runtime.decoding import find_entities, find_spans


def binary(target: str, prediction: str, scores: list[float] | None = None) -> Predictions:
    score = None if scores is None else np.array([[1 - s, s] for s in scores])
    return Predictions(["0", "1"], list(target), list(prediction), score)


def questions(
    targets: list[str], scores: list[float], groups: list[int], labels: tuple[str, str] = ("0", "1")
) -> Predictions:
    score = np.array([[1 - s, s] for s in scores])
    return Predictions(labels, targets, targets, score, np.array(groups))


def test_every_kind_has_metrics() -> None:
    assert sorted(METRICS) == KINDS.names()
    for kind in map(KINDS.get, KINDS.names()):
        found = {re.sub(r"@\d+$", "@DEPTH", name) for name in kind.user_file.metrics}
        assert found <= {*METRICS[kind.name]}


def test_accuracy_is_in_points() -> None:
    assert measure("classification", ["accuracy"], binary("0011", "0111")) == {"accuracy": 75.0}


def test_f1_is_of_the_last_label() -> None:
    # Of label 1: 2 hits, 1 false alarm, 1 miss: p = r = 2/3.
    predictions = binary("01110", "11100")
    assert measure("pair_classification", ["f1"], predictions)["f1"] == pytest.approx(200 / 3)
    swapped = Predictions(["1", "0"], predictions.target, predictions.prediction)
    # Of label 0: 1 hit, 1 false alarm, 1 miss.
    assert measure("pair_classification", ["f1"], swapped)["f1"] == pytest.approx(50.0)


def test_f1_is_zero_when_the_label_never_occurs() -> None:
    assert measure("classification", ["f1"], binary("000", "000")) == {"f1": 0.0}


def test_macro_f1_counts_each_label_of_the_task_the_same() -> None:
    predictions = Predictions(["a", "b", "c"], list("aabb"), list("aabc"))
    # a: 1; b: p = 1, r = 1/2, F1 = 2/3; c, which is never right: 0.
    assert measure("classification", ["macro_f1"], predictions)["macro_f1"] == pytest.approx(
        100 * (1 + 2 / 3 + 0) / 3
    )


def test_matthews_by_hand() -> None:
    # tp 2, tn 1, fp 1, fn 0: (2*1 - 1*0) / sqrt(3 * 2 * 2 * 1)
    value = measure("classification", ["matthews"], binary("0110", "0111"))["matthews"]
    assert value == pytest.approx(100 * 2 / 12**0.5)


@pytest.mark.parametrize(("target", "prediction"), [("0101", "1111"), ("1111", "0101"), ("1", "1")])
def test_matthews_of_constants_is_zero(target: str, prediction: str) -> None:
    assert measure("classification", ["matthews"], binary(target, prediction)) == {"matthews": 0.0}


def test_auc_is_the_share_of_pairs_in_order() -> None:
    predictions = binary("0101", "0101", [0.1, 0.3, 0.4, 0.4])
    # Pairs (right, wrong): .3>.1, .3<.4, .4>.1, .4=.4 (half).
    assert measure("ranking", ["auc"], predictions)["auc"] == pytest.approx(100 * 2.5 / 4)


def test_candidates_without_any_doubt_come_before_all_others() -> None:
    score = [[0.0, 1.0], [0.0, 1.0], [1e-30, 1.0], [0.6, 0.4]]
    predictions = binary("1001", "1101", [1.0, 1.0, 1.0, 0.4])
    predictions = replace(predictions, score=np.array(score))
    # Pairs (right, wrong): equal (half), >; 0.4 below both
    assert measure("ranking", ["auc"], predictions)["auc"] == pytest.approx(100 * 1.5 / 4)
    area = build_score("ranking", "auc", [predictions])
    assert area is not None
    assert area.values == pytest.approx([100 * 1.5 / 4])


@pytest.mark.parametrize("target", ["11", "00"])
def test_auc_needs_both_classes(target: str) -> None:
    with pytest.raises(DataError, match="expected both classes"):
        measure("classification", ["auc"], binary(target, "01", [0.1, 0.2]))


def test_auc_needs_scores() -> None:
    with pytest.raises(DataError, match="found no scores"):
        measure("classification", ["auc"], binary("01", "01"))


def test_map_and_mrr_by_hand_leave_out_unanswerable_questions() -> None:
    predictions = questions(
        ["0", "1", "1", "0", "0", "0", "1", "0"],
        [0.9, 0.8, 0.1, 0.5, 0.7, 0.9, 0.6, 0.1],
        [0, 0, 0, 0, 1, 1, 2, 2],
    )
    # Question 0: right answers at ranks 2 and 4: AP = (1/2 + 2/4) / 2, RR = 1/2.
    # Question 1: no answer, left out. Question 2: right answer first: AP = RR = 1.
    found = measure("ranking", ["map", "mrr"], predictions)
    assert found == pytest.approx({"map": 75.0, "mrr": 75.0})


def test_ties_never_help_a_ranking() -> None:
    first = questions(["1", "0", "0", "0"], [0.5] * 4, [7] * 4)
    last = questions(["0", "0", "0", "1"], [0.5] * 4, [7] * 4)
    for predictions in (first, last):
        assert measure("ranking", ["map", "mrr"], predictions) == {"map": 25.0, "mrr": 25.0}


def test_map_needs_an_answerable_question() -> None:
    with pytest.raises(DataError, match="no question with a right candidate"):
        measure("ranking", ["map"], questions(["0", "0"], [0.1, 0.2], [0, 0]))


def test_candidates_and_questions_are_judged_by_hand() -> None:
    target, prediction, group = list("110010"), list("100110"), [0, 0, 1, 1, 2, 2]
    base = questions(target, [0.5] * 6, group)
    predictions = replace(base, prediction=prediction)
    # Candidates: tp 2, fp 1, fn 1. Of three questions only the last is right as a whole.
    found = measure("ranking", ["f1", "exact_match"], predictions)
    assert found == pytest.approx({"f1": 100 * 4 / 6, "exact_match": 100 / 3})


def test_map_needs_question_numbers() -> None:
    with pytest.raises(DataError, match="question numbers"):
        measure("ranking", ["mrr"], binary("01", "01", [0.1, 0.2]))


def test_correlations_by_hand() -> None:
    predictions = Predictions([], [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 4.0, 3.0])
    # Deviations (-1.5, -.5, .5, 1.5) and (-1.5, -.5, 1.5, .5): 4 / 5 for both, ranks being values.
    found = measure("pair_regression", ["pearson", "spearman"], predictions)
    assert found == pytest.approx({"pearson": 80.0, "spearman": 80.0})


@pytest.mark.parametrize("constant", [[2.0, 2.0, 2.0], [2.0, 2.0, 2.0 + 1e-15]])
def test_correlation_of_a_constant_warns_of_nothing(constant: list[float]) -> None:
    for predictions in (
        Predictions([], [1.0, 2.0, 3.0], constant),
        Predictions([], constant, [1.0, 2.0, 3.0]),
    ):
        found = measure("regression", ["pearson", "spearman"], predictions)
        assert all(-100 <= value <= 100 for value in found.values())
    exact = Predictions([], [1.0, 2.0], [3.0, 3.0])
    assert measure("regression", ["pearson", "spearman"], exact) == {"pearson": 0, "spearman": 0}


def test_entity_f1_wants_type_and_both_ends() -> None:
    target = [["B-PER", "E-PER", "O", "S-LOC"], ["S-ORG", "O"]]
    prediction = [["B-PER", "E-PER", "O", "S-ORG"], ["O", "S-ORG"]]
    bioes = Predictions(["O"], target, prediction, scheme="BIOES")
    found = measure("tagging", ["f1", "f1_strict", "accuracy"], bioes)
    assert found == pytest.approx({"f1": 100 / 3, "f1_strict": 100 / 3, "accuracy": 50.0})
    assert found["f1_strict"] == 100 * seqeval_f1(target, prediction, mode="strict", scheme=IOBES)


def test_the_scheme_is_read_off_the_tags() -> None:
    labels = ["B-A", "E-A", "I-A", "O", "S-A"]
    sentence = [["B-A", "E-A", "S-A"]]
    assert measure("tagging", ["f1"], Predictions(labels, sentence, sentence)) == {"f1": 100.0}
    bio = [["B-A", "I-A", "O"]]
    assert measure("tagging", ["f1"], Predictions(["B-A", "I-A", "O"], bio, bio)) == {"f1": 100.0}


def test_a_sequence_the_scheme_forbids_is_an_entity_except_in_strict_f1() -> None:
    tags = [["I-A", "I-A", "O"]], [["B-A", "I-A", "O"]]
    predictions = Predictions(["B-A", "I-A", "O"], tags[1], tags[0])
    assert measure("tagging", ["f1", "f1_strict"], predictions) == {"f1": 100.0, "f1_strict": 0.0}


TAGS = ["O", *(f"{prefix}-{kind}" for prefix in "BIES" for kind in ("A", "B"))]


@given(st.lists(st.sampled_from(TAGS), min_size=1, max_size=12))
def test_f1_counts_the_entities_that_prediction_delivers(tags: list[str]) -> None:
    spans = find_spans(tags)
    delivered = write_tags(spans, len(tags), "BIOES")
    predictions = Predictions(TAGS, [delivered], [tags], scheme="BIOES")
    assert measure("tagging", ["f1"], predictions) == {"f1": 100.0 if spans else 0.0}
    words = [str(idx) for idx in range(len(tags))]
    shipped = [(e["first"], e["last"] + 1, e["type"]) for e in find_entities(words, tags)]
    assert shipped == [tuple(span) for span in spans]


def test_an_unknown_scheme_is_named() -> None:
    predictions = Predictions(["O"], [["O"]], [["O"]], scheme="BIOS")
    with pytest.raises(ConfigError, match=r"'BIOS'\. Did you mean 'BIOES'"):
        measure("tagging", ["f1"], predictions)


def test_a_tag_of_another_scheme_is_an_error() -> None:
    predictions = Predictions(["O"], [["S-A"]], [["O"]], scheme="BIO")
    with pytest.raises(DataError, match=r"'S-A', which the scheme BIO does not have"):
        measure("tagging", ["f1"], predictions)


def test_an_unknown_metric_is_refused_with_its_neighbour() -> None:
    with pytest.raises(ConfigError, match=r"'accurcy' of the kind 'tagging'\. Did you mean"):
        check_metrics("tagging", ["f1", "accurcy"])
    with pytest.raises(ConfigError, match=r"unknown kind 'tag'\. Did you mean 'tagging'"):
        check_metrics("tag", ["f1"])


def test_nothing_to_measure_is_an_error() -> None:
    with pytest.raises(DataError, match="found no examples"):
        measure("classification", ["accuracy"], binary("", ""))


def test_the_libraries_wait_for_the_first_measurement() -> None:
    code = (
        "import sys, nlp_core.metrics as m; m.check_metrics('tagging', ['f1']);"
        "sys.exit(any(name in sys.modules for name in ('sklearn', 'scipy', 'seqeval')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
