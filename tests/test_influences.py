"""Areas, correlations and seeds with other examples: against SciPy and scikit-learn."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from nlp_core.metrics import Predictions, measure
from nlp_core.statistics import (
    AreaScore,
    Pair,
    PearsonScore,
    RankScore,
    UnpairedScore,
    build_score,
    list_terms,
    resample,
    score_terms,
    swap_examples,
)


def make_area(
    rows: int, *, seed: int, questions: int | None = None
) -> tuple[AreaScore, Predictions]:
    draw = np.random.default_rng(seed)
    target = draw.integers(0, 2, rows)
    score = np.round(draw.random(rows) + 0.3 * target, 1) / 2  # with ties
    group = None if questions is None else np.sort(draw.integers(0, questions, rows))
    run = Predictions(
        ["0", "1"], [str(x) for x in target], ["0"] * rows, np.stack([1 - score, score], 1), group
    )
    found = build_score("classification", "auc", [run])
    assert isinstance(found, AreaScore)
    return found, run


def test_a_weighted_area_is_that_of_scikit_learn() -> None:
    score, run = make_area(60, seed=1)
    weights = np.random.default_rng(2).integers(0, 4, (5, 60)).astype(np.uint8)
    assert run.score is not None
    target = [item == "1" for item in run.target]
    expected = [100 * roc_auc_score(target, run.score[:, 1], sample_weight=w) for w in weights]
    assert score.evaluate(weights)[:, 0] == pytest.approx(expected)


def test_an_area_is_that_of_what_each_document_adds() -> None:
    """The pieces of a document have other labels with each seed, and may be of one class."""
    draw = np.random.default_rng(3)
    document = np.sort(draw.integers(0, 12, 300))
    targets = draw.random((2, 300)) < 0.2
    targets[:, document == 4] = False
    targets[0, document == 5] = True
    scores = np.round(draw.random((2, 300)) + 0.4 * targets, 1) / 2
    counts = np.vstack([np.ones(12), draw.integers(0, 3, (5, 12))]).astype(np.uint8)
    terms, expected = [], []
    for target, right in zip(targets, scores, strict=True):
        answers = np.where(target, "r", "o").tolist()
        run = Predictions(["o", "r"], answers, ["o"] * 300, np.stack([1 - right, right], 1))
        terms.append(list_terms("masked_language_model", "detection_auc", run, document))
        weights = counts[:, document]
        expected.append([100 * roc_auc_score(target, right, sample_weight=w) for w in weights])
    score = score_terms("masked_language_model", "detection_auc", np.stack(terms))
    assert isinstance(score, AreaScore)
    assert score.evaluate(counts) == pytest.approx(np.array(expected).T)
    assert score.values == pytest.approx([areas[0] for areas in expected])
    without = score.evaluate(1 - np.eye(12, dtype=np.uint8)).mean(1)
    assert np.corrcoef(-without, score.influences)[0, 1] > 0.99


def test_influences_of_questions_are_the_change_without_them() -> None:
    score, _ = make_area(400, seed=4, questions=80)
    whole = score.values.mean()
    size = score.shape[1]
    weights = 1 - np.eye(size, dtype=np.uint8)
    without = score.evaluate(weights)[:, 0]
    assert np.corrcoef(whole - without, score.influences)[0, 1] > 0.99
    assert score.influences.sum() == pytest.approx(0.0, abs=1e-9)


def test_areas_of_a_single_question_show_no_difference() -> None:
    one, _ = make_area(20, seed=1, questions=1)
    two, _ = make_area(20, seed=2, questions=1)
    assert swap_examples([{"one": one, "two": two}]) == [{Pair("one", "two"): 1.0}]


@pytest.mark.parametrize(("rows", "p_value"), [(2, 1.0), (6, 2 / 20), (40, 2 / math.comb(40, 20))])
def test_a_perfect_area_differs_from_that_of_constant_scores(rows: int, p_value: float) -> None:
    target = ["0", "1"] * (rows // 2)
    scores = {"right": np.array([0.1, 0.9] * (rows // 2)), "constant": np.full(rows, 0.5)}
    runs = {
        name: Predictions(["0", "1"], target, target, np.stack([1 - score, score], 1))
        for name, score in scores.items()
    }
    areas = {name: build_score("classification", "auc", [run]) for name, run in runs.items()}
    found = {name: area for name, area in areas.items() if area is not None}
    pair = Pair("right", "constant")
    assert swap_examples([found]) == [{pair: pytest.approx(p_value)}]
    same = {name: found["right"] for name in found}
    assert swap_examples([same]) == [{pair: 1.0}]


def make_ranks(size: int, *, seed: int) -> tuple[RankScore, list[Predictions]]:
    """Return two seeds' answers to numbers, with many equal ones."""
    draw = np.random.default_rng(seed)
    target = draw.integers(0, 12, size) / 4
    runs = [
        Predictions(
            [], target.tolist(), np.round(target + draw.normal(0, spread, size), 1).tolist()
        )
        for spread in (0.5, 1.0)
    ]
    score = build_score("pair_regression", "spearman", runs)
    assert isinstance(score, RankScore)
    return score, runs


def test_a_resampled_rank_correlation_is_that_of_scipy() -> None:
    score, runs = make_ranks(40, seed=1)
    rows = np.random.default_rng(2).integers(0, 40, (6, 40))
    counts = np.stack([np.bincount(row, minlength=40) for row in rows]).astype(np.uint8)
    expected = [
        [
            100 * stats.spearmanr(*(np.asarray(part)[row] for part in answers)).statistic
            for answers in ((run.target, run.prediction) for run in runs)
        ]
        for row in rows
    ]
    assert score.evaluate(counts) == pytest.approx(np.asarray(expected))


@pytest.mark.parametrize(
    ("metric", "correlate"), [("spearman", stats.spearmanr), ("pearson", stats.pearsonr)]
)
def test_influences_of_correlations_give_the_variance_of_a_jackknife(
    metric: str, correlate: Callable[..., tuple[float, float]]
) -> None:
    _, runs = make_ranks(30, seed=3)
    score = build_score("regression", metric, runs)
    assert isinstance(score, RankScore | PearsonScore)
    without = [
        np.mean(
            [
                100 * correlate(np.delete(run.target, idx), np.delete(run.prediction, idx))[0]
                for run in runs
            ]
        )
        for idx in range(30)
    ]
    assert score.influences.sum() == pytest.approx(0.0, abs=1e-9)
    variance = 29 / 30 * np.square(without - np.mean(without)).sum()
    assert np.square(score.influences).sum() * 30 / 29 == pytest.approx(variance)
    resampled = resample(score).rounds.var()
    assert 0.5 * resampled < variance < 2 * resampled


def test_rank_correlations_of_equal_answers_do_not_differ_and_of_worse_ones_do() -> None:
    score, runs = make_ranks(60, seed=4)
    mixed = [
        replace(run, prediction=np.random.default_rng(5).permutation(run.prediction).tolist())
        for run in runs
    ]
    worse = build_score("regression", "spearman", mixed)
    assert worse is not None
    found = swap_examples([{"first": score, "same": score, "worse": worse}])[0]
    assert found[Pair("first", "same")] == 1.0
    assert found[Pair("first", "worse")] < 1e-6


def test_the_scale_of_predictions_changes_no_test_of_correlations() -> None:
    _, runs = make_ranks(80, seed=7)
    good, bad = runs  # the second has twice the noise
    tenfold = replace(bad, prediction=[10 * number + 3 for number in bad.prediction])
    p_values = []
    for other in (bad, tenfold):
        scores = {
            name: build_score("regression", "pearson", [run])
            for name, run in (("good", good), ("other", other))
        }
        found = {name: score for name, score in scores.items() if score is not None}
        p_values.append(swap_examples([found])[0][Pair("good", "other")])
    assert p_values[0] == pytest.approx(p_values[1])
    assert p_values[0] < 1e-3


def test_numbers_that_never_vary_have_no_rank_correlation() -> None:
    runs = [Predictions([], [1.0, 2.0, 3.0], answers) for answers in ([1.0, 2.0, 4.0], [0.5] * 3)]
    scores = [build_score("regression", "spearman", [run]) for run in runs]
    perfect, constant = (score for score in scores if score is not None)
    assert [perfect.values[0], constant.values[0]] == pytest.approx([100.0, 0.0])
    p_values = swap_examples([{"perfect": perfect, "constant": constant}])[0]
    assert p_values[Pair("perfect", "constant")] == pytest.approx(2 / 6)


@pytest.mark.parametrize(
    ("kind", "metric"), [("classification", "auc@b"), ("regression", "auc@0.5")]
)
def test_the_area_of_a_chosen_decision_is_the_metric(kind: str, metric: str) -> None:
    draw = np.random.default_rng(6)
    if kind == "regression":
        run = Predictions([], draw.random(50).tolist(), draw.random(50).tolist())
    else:
        target = draw.choice([*"abc"], 50).tolist()
        run = Predictions([*"abc"], target, target, draw.dirichlet([1, 1, 1], 50))
    score = build_score(kind, metric, [run])
    assert isinstance(score, AreaScore)
    assert score.values[0] == pytest.approx(measure(kind, [metric], run)[metric])


def test_an_area_of_one_class_has_no_interval() -> None:
    run = Predictions([], [0.7, 0.9], [0.2, 0.4])
    assert build_score("regression", "auc@0.5", [run]) is None


@pytest.mark.parametrize("metric", ["spearman", "auc@0.5"])
def test_orders_of_too_many_examples_have_no_interval(metric: str) -> None:
    numbers = np.linspace(0, 1, 4001).tolist()
    assert build_score("regression", metric, [Predictions([], numbers, numbers)]) is None


def test_seeds_with_examples_of_their_own_have_the_interval_and_the_test_of_student() -> None:
    values = {"first": np.array([31.0, 32.5, 33.0]), "second": np.array([27.0, 29.5, 28.0, 31.0])}
    scores = {name: UnpairedScore(measured, 0.0, 100.0) for name, measured in values.items()}
    for name, score in scores.items():
        mean, error = values[name].mean(), stats.sem(values[name])
        expected = stats.t.interval(0.95, len(values[name]) - 1, mean, error)
        assert resample(score).interval == pytest.approx(expected)
    (found,) = swap_examples([scores])
    expected = stats.ttest_ind(*values.values(), equal_var=False).pvalue
    assert found == {Pair("first", "second"): pytest.approx(expected)}
    assert resample(UnpairedScore(np.array([1.0, 99.0]), 0.0, 100.0)).interval == (0.0, 100.0)
    measured = np.array([120.0, 130.0, 125.0])
    found = resample(UnpairedScore(measured, 1.0, np.inf)).interval
    reach = stats.t.ppf(0.975, 2) * stats.sem(measured) / measured.mean()
    assert found == pytest.approx(measured.mean() * np.exp([-reach, reach]))
