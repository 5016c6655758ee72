"""Metrics of labels, thresholds, numbers and calibration: by hand and against scikit-learn."""

from collections.abc import Sequence

import numpy as np
import pytest
import seqeval.metrics
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, classification_report, roc_auc_score

from nlp_core.errors import ConfigError, DataError
from nlp_core.metrics import Predictions, classification, measure
from nlp_core.metrics.classification import (
    NOTHING,
    compute_calibration_error,
    count_confusions,
)
from nlp_core.report.markdown import list_confusion

AVERAGES = ("macro", "micro", "weighted")
AREAS = [f"{average}_auc" for average in AVERAGES]
# Right: a a a b b c; said: a a b b c c.
THREE = Predictions(["a", "b", "c"], list("aaabbc"), list("aabbcc"))


def scored(target: str, scores: list[float]) -> Predictions:
    pairs = np.array([[1 - score, score] for score in scores])
    prediction = ["1" if score >= 0.5 else "0" for score in scores]
    return Predictions(["0", "1"], list(target), prediction, pairs)


def draw(seed: int, size: int = 200) -> Predictions:
    generator = np.random.default_rng(seed)
    score: NDArray[np.float64] = generator.dirichlet([1.0, 1.0, 1.0], size)
    target = [str(generator.choice(3, p=row)) for row in score]
    return Predictions(list("012"), target, [str(row.argmax()) for row in score], score)


def test_precision_and_recall_of_a_label_by_hand() -> None:
    names = ["precision@a", "recall@a", "f1@a", "precision", "recall", "f1"]
    found = measure("classification", names, THREE)
    assert found == pytest.approx(
        {
            "precision@a": 100.0,
            "recall@a": 200 / 3,
            "f1@a": 80.0,
            "precision": 50.0,
            "recall": 100.0,
            "f1": 200 / 3,
        }
    )


def test_averages_by_hand() -> None:
    # p: 1, 1/2, 1/2; r: 2/3, 1/2, 1; 4 of 6 right
    found = measure(
        "pair_classification",
        ["macro_precision", "macro_recall", "weighted_recall", "weighted_precision", "micro_f1"],
        THREE,
    )
    assert found == pytest.approx(
        {
            "macro_precision": 200 / 3,
            "macro_recall": 100 * (2 / 3 + 1 / 2 + 1) / 3,
            "weighted_recall": 400 / 6,
            "weighted_precision": 100 * (3 * 1 + 2 * 0.5 + 1 * 0.5) / 6,
            "micro_f1": 400 / 6,
        }
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_averages_are_those_of_scikit_learns_report(seed: int) -> None:
    predictions = draw(seed)
    report = classification_report(predictions.target, predictions.prediction, output_dict=True)
    for name in ("precision", "recall"):
        for average in ("macro", "weighted"):
            found = measure("classification", [f"{average}_{name}"], predictions)
            assert found[f"{average}_{name}"] == pytest.approx(100 * report[f"{average} avg"][name])
        found = measure("classification", [f"{name}@1"], predictions)
        assert found[f"{name}@1"] == pytest.approx(100 * report["1"][name])


def test_the_labels_of_examples_are_marked_once_for_all_areas(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls, mark = [], classification._indicate

    def count(values: Sequence[object], labels: Sequence[str]) -> NDArray[np.bool_]:
        calls.append(values)
        return mark(values, labels)

    monkeypatch.setattr(classification, "_indicate", count)
    measure("classification", ["macro_auc"], draw(1))
    assert len(calls) == 1


@pytest.mark.parametrize("seed", [1, 2])
def test_areas_of_labels_are_those_of_scikit_learn(seed: int) -> None:
    predictions = draw(seed)
    assert predictions.score is not None
    names = ["auc@0", "auc", "average_precision@1", *AREAS]
    found = measure("classification", names, predictions)
    target = np.array(predictions.target)
    score = predictions.score
    assert found["auc@0"] == pytest.approx(100 * roc_auc_score(target == "0", score[:, 0]))
    assert found["auc"] == pytest.approx(100 * roc_auc_score(target == "2", score[:, 2]))
    macro = roc_auc_score(target, score, multi_class="ovr", average="macro")
    assert found["macro_auc"] == pytest.approx(100 * macro)
    for average in ("weighted", "micro"):
        area = roc_auc_score(target, score, multi_class="ovr", average=average)
        assert found[f"{average}_auc"] == pytest.approx(100 * area)
    precision = average_precision_score(target == "1", score[:, 1])
    assert found["average_precision@1"] == pytest.approx(100 * precision)


def test_averages_of_areas_with_a_label_that_does_not_occur() -> None:
    score = np.array([[0.5, 0.3, 0.2], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1]])
    predictions = Predictions(list("abc"), list("aba"), list("aab"), score)
    # a: right at .5 and .1, wrong at .6: 0; b: right at .3, wrong at .3 and .8: (1/2 + 0) / 2.
    found = measure("classification", AREAS, predictions)
    assert found == pytest.approx(
        {
            "macro_auc": 12.5,
            "weighted_auc": 100 * (2 * 0 + 1 * 0.25) / 3,
            # Right at .5, .3, .1; wrong at .8, .6, .3, .2, .1, .1.
            "micro_auc": 100 * (4 + 3.5 + 1) / 18,
        }
    )
    one = Predictions(list("abc"), list("aaa"), list("aab"), score)
    for name in ("macro_auc", "weighted_auc"):
        with pytest.raises(DataError, match="expected both classes"):
            measure("classification", [name], one)


def test_recall_at_a_precision_by_hand() -> None:
    # From the top: right, right, wrong, right, wrong: precision 1, 1, 2/3, 3/4, 3/5.
    predictions = scored("01011", [0.1, 0.9, 0.5, 0.7, 0.3])
    names = [
        f"{what}_at_precision@{at}" for at in (1, 0.7, 0.6) for what in ("recall", "threshold")
    ]
    assert measure("classification", names, predictions) == pytest.approx(
        {
            "recall_at_precision@1": 200 / 3,
            "threshold_at_precision@1": 0.7,
            "recall_at_precision@0.7": 100.0,
            "threshold_at_precision@0.7": 0.3,
            "recall_at_precision@0.6": 100.0,
            "threshold_at_precision@0.6": 0.3,
        }
    )
    of_other = measure("classification", ["recall_at_precision@1@0"], predictions)
    assert of_other == pytest.approx({"recall_at_precision@1@0": 50.0})


def test_a_precision_that_nothing_reaches_chooses_nothing() -> None:
    names = ["recall_at_precision@0.9", "threshold_at_precision@0.9"]
    found = measure("classification", names, scored("01", [0.9, 0.1]))
    assert found == {names[0]: 0.0, names[1]: NOTHING}


@pytest.mark.parametrize("name", ["average_precision", "recall_at_precision@0.5"])
def test_a_label_that_no_example_has_is_an_error(name: str) -> None:
    with pytest.raises(DataError, match="found no example labelled '1'"):
        measure("classification", [name], scored("00", [0.9, 0.1]))


@pytest.mark.parametrize(
    "name",
    ["macro_auc", "micro_auc", "weighted_auc", "average_precision", "expected_calibration_error"],
)
def test_scores_are_needed(name: str) -> None:
    with pytest.raises(DataError, match=f"metrics: {name}: found no scores"):
        measure("classification", [name], Predictions(["0", "1"], ["0", "1"], ["0", "1"]))


def test_calibration_error_by_hand() -> None:
    # Two answers of .9, one right: gap .4, weight 2/4; two of .6, both right: gap .4, weight 2/4.
    predictions = scored("1010", [0.9, 0.9, 0.6, 0.4])
    found = measure("classification", ["expected_calibration_error"], predictions)
    assert found["expected_calibration_error"] == pytest.approx(40.0)


def test_calibration_bins_hold_their_upper_edge() -> None:
    confidence = np.array([0.5, 0.50001, 1.0])
    right = np.array([True, False, True])
    # (0, .5]: |1 - .5|; (.5, 1]: |1 - 1.50001| of two
    assert compute_calibration_error(confidence, right, bins=2) == pytest.approx(1.00001 / 3)


def test_a_calibrated_model_has_a_small_error() -> None:
    found = measure("classification", ["expected_calibration_error"], draw(4, 20000))
    assert found["expected_calibration_error"] < 2.0


def test_errors_of_numbers_are_in_their_own_unit() -> None:
    predictions = Predictions([], [1.0, 2.0, 5.0], [1.0, 4.0, 4.0])
    found = measure("regression", ["mae", "mse", "rmse"], predictions)
    assert found == pytest.approx({"mae": 1.0, "mse": 5 / 3, "rmse": (5 / 3) ** 0.5})


SETS = Predictions(
    ["x", "y", "z"],
    [("x",), ("y", "x"), (), ("z",)],
    [["x"], ["x"], ["y"], ["z"]],
    np.array([[0.9, 0.2, 0.1], [0.8, 0.4, 0.3], [0.3, 0.6, 0.2], [0.2, 0.1, 0.7]]),
)


def test_metrics_of_several_labels_by_hand() -> None:
    # x: 2 hits; y: 1 false alarm, 1 miss; z: 1 hit.
    names = ["exact_match", "micro_f1", "macro_f1", "weighted_recall", "f1@y", "precision@x"]
    assert measure("multi_label", names, SETS) == pytest.approx(
        {
            "exact_match": 50.0,
            "micro_f1": 100 * 2 * 3 / (2 * 3 + 1 + 1),
            "macro_f1": 200 / 3,
            "weighted_recall": 75.0,
            "f1@y": 0.0,
            "precision@x": 100.0,
        }
    )


def test_order_of_labels_is_no_matter() -> None:
    predictions = Predictions(["x", "y"], [("x", "y")], [["y", "x"]])
    assert measure("multi_label", ["exact_match"], predictions) == {"exact_match": 100.0}


def test_areas_of_several_labels_by_hand() -> None:
    names = ["auc@y", *AREAS, "average_precision@y", "average_precision"]
    # y: right at .4, wrong at .2, .6, .1: 2 of 3 in order, precision 1/2; x and z in full order.
    # Pooled, 8 are wrong: of them .6 alone stands above a right one, .4.
    assert measure("multi_label", names, SETS) == pytest.approx(
        {
            "auc@y": 200 / 3,
            "macro_auc": 100 * (1 + 2 / 3 + 1) / 3,
            "micro_auc": 100 * 31 / 32,
            "weighted_auc": 100 * (2 * 1 + 2 / 3 + 1) / 4,
            "average_precision@y": 50.0,
            "average_precision": 100 * (1 + 1 / 2 + 1) / 3,
        }
    )


@pytest.mark.parametrize("seed", [7, 8])
def test_averages_of_areas_of_several_labels_are_those_of_scikit_learn(seed: int) -> None:
    generator = np.random.default_rng(seed)
    right = generator.random((60, 3)) < [0.1, 0.4, 0.8]
    score = generator.random((60, 3)).round(1) + 0.2 * right  # ties among them
    target = [[label for label, has in zip("abc", row, strict=True) if has] for row in right]
    found = measure("multi_label", AREAS, Predictions(list("abc"), target, target, score))
    assert found == pytest.approx(
        {f"{name}_auc": 100 * roc_auc_score(right, score, average=name) for name in AVERAGES}
    )


def test_areas_of_labels_that_no_or_all_examples_have() -> None:
    generator = np.random.default_rng(9)
    right = generator.random((30, 4)) < [0.0, 0.3, 0.6, 1.1]
    score = generator.random((30, 4))
    target = [[label for label, has in zip("abcd", row, strict=True) if has] for row in right]
    found = measure("multi_label", AREAS, Predictions(list("abcd"), target, target, score))
    # Only the pooled decisions hold those of a and d.
    expected = {
        f"{name}_auc": 100 * roc_auc_score(right[:, 1:3], score[:, 1:3], average=name)
        for name in ("macro", "weighted")
    }
    expected["micro_auc"] = 100 * roc_auc_score(right.ravel(), score.ravel())
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("name", ["macro_auc", "weighted_auc", "micro_auc"])
def test_an_area_needs_a_label_that_some_examples_have(name: str) -> None:
    nothing = Predictions(["x", "y"], [(), ()], [(), ()], np.array([[0.9, 0.2], [0.1, 0.4]]))
    with pytest.raises(DataError, match="expected both classes"):
        measure("multi_label", [name], nothing)


def test_one_threshold_serves_all_labels() -> None:
    names = ["recall_at_precision@1", "threshold_at_precision@1", "recall_at_precision@0.5@y"]
    # All decisions from the top: .9 .8 .7 right, .6 wrong, .4 right.
    found = measure("multi_label", names, SETS)
    assert found == pytest.approx({names[0]: 75.0, names[1]: 0.7, names[2]: 100.0})


@pytest.mark.parametrize("seed", [5, 6])
def test_averages_of_several_labels_are_those_of_scikit_learn(seed: int) -> None:
    generator = np.random.default_rng(seed)
    right, said = generator.random((60, 3)) < 0.4, generator.random((60, 3)) < 0.5
    labels = list("abc")

    def name(rows: NDArray[np.bool_]) -> list[list[str]]:
        return [[labels[idx] for idx in np.flatnonzero(row)] for row in rows]

    predictions = Predictions(labels, name(right), name(said))
    report = classification_report(
        right, said, target_names=labels, output_dict=True, zero_division=0
    )
    for average in ("micro", "macro", "weighted"):
        for score, key in (("f1", "f1-score"), ("precision", "precision"), ("recall", "recall")):
            metric = f"{average}_{score}"
            found = measure("multi_label", [metric], predictions)[metric]
            assert found == pytest.approx(100 * report[f"{average} avg"][key]), metric


def test_a_task_of_one_label_has_averages() -> None:
    predictions = Predictions(["x"], [("x",), (), ("x",)], [["x"], ["x"], []])
    found = measure("multi_label", ["micro_f1", "macro_precision"], predictions)
    assert found == pytest.approx({"micro_f1": 50.0, "macro_precision": 50.0})


def test_entity_precision_and_recall_by_hand() -> None:
    target = [["B-A", "I-A", "O", "B-B"]]
    prediction = [["B-A", "I-A", "B-B", "B-B"]]
    predictions = Predictions(["B-A", "B-B", "I-A", "O"], target, prediction, scheme="BIO")
    found = measure("tagging", ["precision", "recall"], predictions)
    assert found == pytest.approx({"precision": 200 / 3, "recall": 100.0})


SENTENCES = [["B-PER", "I-PER", "O", "B-LOC"], ["B-PER", "B-LOC", "I-LOC"], ["O", "B-ORG"]]
FOUND = [["B-PER", "I-PER", "O", "B-PER"], ["B-PER", "B-LOC", "I-PER"], ["O", "I-ORG"]]
TAGGED = Predictions(
    ["O", *(f"{place}-{name}" for place in "BI" for name in ("LOC", "ORG", "PER"))],
    SENTENCES,
    FOUND,
)


def test_entities_of_one_type_are_counted_as_seqeval_counts_them() -> None:
    expected = seqeval.metrics.classification_report(
        SENTENCES, FOUND, zero_division=0, output_dict=True
    )
    names = {"f1": "f1-score", "precision": "precision", "recall": "recall"}
    wanted = {
        f"{name}@{label}": 100 * expected[label][column]
        for name, column in names.items()
        for label in ("PER", "LOC", "ORG")
    }
    found = measure("tagging", list(wanted), TAGGED)
    assert found == pytest.approx(wanted)
    assert 0 < found["precision@PER"] < found["recall@PER"]
    with pytest.raises(ConfigError, match="found the label 'B-PER', which the task does not have"):
        measure("tagging", ["f1@B-PER"], TAGGED)


def test_slots_have_precision_and_recall() -> None:
    target, prediction = (
        [{"label": "fly", "tags": tags} for tags in item] for item in (SENTENCES, FOUND)
    )
    names = ["slot_f1", "slot_precision", "slot_recall"]
    found = measure("intent_slots", names, Predictions(["fly"], target, prediction))
    expected = measure("tagging", ["f1", "precision", "recall"], TAGGED)
    assert list(found.values()) == list(expected.values())


def test_confusions_are_counted_and_shown() -> None:
    confusion = count_confusions(THREE)
    assert confusion.counts.tolist() == [[2, 1, 0], [0, 1, 1], [0, 0, 1]]
    assert list_confusion(confusion) == [
        ["right / predicted", "a", "b", "c", "all"],
        ["a", "2", "1", "0", "3"],
        ["b", "0", "1", "1", "2"],
        ["c", "0", "0", "1", "1"],
        ["all", "2", "2", "2", "6"],
    ]


def test_a_label_that_never_occurs_keeps_its_row() -> None:
    confusion = count_confusions(Predictions(["a", "b"], ["a"], ["a"]))
    assert confusion.counts.tolist() == [[1, 0], [0, 0]]
