"""Intervals, tests and letters: against scipy and scikit-learn, and on the committed results."""

import math
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import f1_score

from nlp_core.metrics import Predictions, is_lower_better, measure
from nlp_core.report.comparison import read_comparison
from nlp_core.report.examples import find_examples, read_runs
from nlp_core.report.paper import PaperTable
from nlp_core.report.results import read_results
from nlp_core.report.significance import (
    compare_rows,
    find_differences,
    measure_variation,
    render_differences,
)
from nlp_core.statistics import (
    Pair,
    Resamples,
    SumScore,
    build_score,
    correct_holm,
    find_p_value,
    measure_spread,
    name_groups,
    resample,
    score_terms,
    swap_examples,
)
from nlp_core.statistics.score import downcast_if_exact

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((ROOT / "results/examples").glob("*/*.parquet"))
A = [1, 1, 1, 1, 1, 1, 1, 1, 0, 0]
B = [1, 1, 1, 1, 0, 0, 0, 1, 0, 0]


def make_accuracy(*seeds: list[int]) -> SumScore:
    runs = [
        Predictions(["0", "1"], ["1"] * len(hits), [str(hit) for hit in hits]) for hits in seeds
    ]
    score = build_score("classification", "accuracy", runs)
    assert isinstance(score, SumScore)
    return score


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_score_of_all_examples_is_the_committed_one(path: Path) -> None:
    cell = read_results(path.parent.name, ROOT).cells[path.stem]
    compared = 0
    for runs in read_runs(path):
        for name, expected in cell.metrics.items():
            metric = runs.find_metric(name)
            score = None if metric is None else runs.build_score(metric)
            if score is not None:
                assert score.values == pytest.approx(expected.values, rel=1e-9, abs=5e-5), name
                compared += 1
    assert compared >= 1


def test_the_worked_example_has_the_p_value_of_scipy() -> None:
    (found,) = swap_examples([{"A": make_accuracy(A), "B": make_accuracy(B)}])
    expected = stats.permutation_test(
        (A, B), lambda a, b: np.mean(a) - np.mean(b), permutation_type="samples"
    )
    assert expected.pvalue == 0.25
    assert found[Pair("A", "B")] == pytest.approx(0.25, abs=0.02)


def test_the_interval_of_one_seed_is_that_of_scipy() -> None:
    hits = list(np.random.default_rng(3).integers(0, 2, 400))
    low, high = resample(make_accuracy(hits)).interval
    expected = stats.bootstrap(
        (100 * np.array(hits),), np.mean, method="percentile", rng=np.random.default_rng(1)
    ).confidence_interval
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=0.6)


def test_seeds_that_differ_widen_the_interval() -> None:
    draw = np.random.default_rng(5)
    same = list(draw.integers(0, 2, 300))
    other = [int(hit and draw.random() < 0.7) for hit in same]
    alone = resample(make_accuracy(same, same)).interval
    both = resample(make_accuracy(same, other)).interval
    assert both.high - both.low > 1.3 * (alone.high - alone.low)


def test_seeds_that_differ_on_all_examples_give_a_t_interval() -> None:
    hits = [[1] * 600 + [0] * 400, [1] * 500 + [0] * 500, [1] * 550 + [0] * 450]
    found = resample(make_accuracy(*[seed * 40 for seed in hits])).interval
    expected = stats.t.interval(0.95, 2, 55.0, 5.0 / np.sqrt(3))
    assert found == pytest.approx(expected, rel=0.01)


def test_no_interval_ends_above_all_points() -> None:
    seeds = [[1] * 100, [1] * 98 + [0] * 2]
    assert resample(make_accuracy(*seeds)).interval.high == 100.0


def test_right_answers_only_have_the_exact_interval_of_a_proportion() -> None:
    found = resample(make_accuracy([1] * 300, [1] * 300)).interval
    exact = stats.binomtest(300, 300).proportion_ci()
    assert found == pytest.approx((100 * exact.low, 100 * exact.high))


def test_a_perfect_area_has_the_exact_interval_though_some_resamples_have_none() -> None:
    second = np.array([0.1, 0.2, 0.8, 0.9])
    run = Predictions(["0", "1"], [*"0011"], [*"0011"], np.stack([1 - second, second], 1))
    score = build_score("classification", "auc", [run])
    assert score is not None
    found = resample(score)
    assert np.isnan(found.rounds).any()
    exact = stats.binomtest(4, 4).proportion_ci()
    assert found.interval == pytest.approx((100 * exact.low, 100 * exact.high))


def test_an_error_in_its_own_unit_has_no_upper_bound() -> None:
    draw = np.random.default_rng(3)
    target = draw.normal(size=200)
    prediction = target + draw.normal(scale=5000.0, size=200)
    score = build_score("regression", "rmse", [Predictions([], [*target], [*prediction])])
    assert score is not None
    found = resample(score).interval
    assert found.low < float(score.values[0]) < found.high
    assert found.high > 5000.0


@pytest.mark.parametrize(("middle", "scale"), [(0.0, 1.0), (1.7e9, 1000.0), (1.7e9, 10.0)])
def test_the_correlation_of_numbers_far_from_zero_is_that_of_scipy(
    middle: float, scale: float
) -> None:
    draw = np.random.default_rng(4)
    target = middle + scale * draw.normal(size=300)
    near = target + scale * draw.normal(size=300)
    for prediction in (near, near + 1e6 * scale):
        score = build_score("regression", "pearson", [Predictions([], [*target], [*prediction])])
        assert score is not None
        assert score.values == pytest.approx([100 * stats.pearsonr(target, prediction).statistic])


def test_an_answer_that_never_varies_has_no_correlation() -> None:
    target = np.random.default_rng(6).normal(size=50)
    score = build_score("regression", "pearson", [Predictions([], [*target], [1000.1] * 50)])
    assert score is not None
    assert score.values == pytest.approx([0.0])


def test_the_candidates_of_a_question_are_drawn_together() -> None:
    group = np.repeat(np.arange(100), 6)
    right = np.random.default_rng(8).random(100) < 0.7
    target = ["1", "0", "0", "1", "0", "1"] * 100
    flipped = {"0": "1", "1": "0"}
    prediction = [
        label if right[number] else flipped[label]
        for number, label in zip(group, target, strict=True)
    ]
    score = build_score("ranking", "f1", [Predictions(["0", "1"], target, prediction, group=group)])
    assert score is not None
    assert score.shape == (1, 100)
    assert score.values == pytest.approx([100 * f1_score(target, prediction, pos_label="1")])


def test_more_groups_than_letters_have_names_of_their_own() -> None:
    rows = [f"row {number}" for number in range(60)]
    names = name_groups(rows, dict.fromkeys(map(Pair._make, combinations(rows, 2)), 0.0))
    assert names["row 0"] == "a"
    assert names["row 26"] == "a2"
    assert names["row 59"] == "h3"
    assert len({*names.values()}) == 60


def test_the_noise_of_examples_is_not_counted_as_spread_of_seeds() -> None:
    draw = np.random.default_rng(2)
    seeds = [list((draw.random(1000) < 0.8).astype(int)) for _ in range(40)]
    found = resample(make_accuracy(*seeds)).interval
    # independent examples: the spread of the mean over seeds is that of 40,000 examples
    reach = stats.norm.ppf(0.975) * 100 * np.sqrt(0.8 * 0.2 / 40_000)
    assert (found.high - found.low) / 2 == pytest.approx(reach, rel=0.5)


def test_equal_cells_differ_by_nothing_and_unequal_ones_do() -> None:
    draw = np.random.default_rng(7)
    high = [list((draw.random(500) < 0.9).astype(int)) for _ in range(3)]
    low = [list((draw.random(500) < 0.7).astype(int)) for _ in range(3)]
    scores = {
        "good": make_accuracy(*high),
        "same": make_accuracy(*high),
        "bad": make_accuracy(*low),
    }
    (swapped,) = swap_examples([scores])
    assert swapped[Pair("good", "same")] == 1.0
    assert swapped[Pair("good", "bad")] == 1 / 10_000
    samples = {name: resample(score) for name, score in scores.items()}
    assert find_p_value(samples["good"], samples["bad"]) < 0.01
    assert find_p_value(samples["good"], samples["same"]) > 0.5
    good, bad = samples["good"], samples["bad"]
    parts = [float(np.var(good.rounds - bad.rounds)), good.seed_variance, bad.seed_variance]
    freedom = sum(parts) ** 2 / sum(part**2 / 2 for part in parts[1:])
    factor = stats.t.ppf(0.975, freedom) + stats.t.ppf(0.8, freedom)
    assert measure_spread(good, bad) == pytest.approx(factor * math.sqrt(sum(parts)))


def test_a_difference_on_every_example_is_certain_and_none_is_no_difference() -> None:
    good, bad = resample(make_accuracy([1] * 50)), resample(make_accuracy([0] * 50))
    assert find_p_value(good, bad) == 0.0
    assert find_p_value(good, good) == 1.0


def test_the_p_value_of_differing_seeds_is_that_of_welch() -> None:
    # every example repeats its seed's level, so resampling adds almost no variance
    levels = {"a": [900, 700, 800], "b": [600, 500, 700, 650]}
    found = {
        name: resample(make_accuracy(*[([1] * n + [0] * (1000 - n)) * 40 for n in seeds]))
        for name, seeds in levels.items()
    }
    expected = stats.ttest_ind(levels["a"], levels["b"], equal_var=False).pvalue
    assert find_p_value(found["a"], found["b"]) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(
    ("values", "is_exact"),
    [([[0.5], [3.0]], True), ([[0.1], [3.0]], False), ([[2.0**23], [1.0]], False)],
)
def test_values_become_float32_only_if_their_sums_are_exact(
    values: list[list[float]], is_exact: bool
) -> None:
    found = downcast_if_exact(np.asarray(values))
    assert found.tolist() == values
    assert found.dtype == (np.float32 if is_exact else np.float64)


def test_a_label_that_training_never_saw_counts_as_one_of_several() -> None:
    run = Predictions(["a", "b"], [*"abz"], [*"aba"])
    assert build_score("classification", "matthews", [run]) is None
    assert build_score("classification", "matthews", [replace(run, target=[*"aba"])]) is not None


def test_the_correlation_of_several_labels_has_no_interval() -> None:
    run = Predictions([*"abc"], [*"abcabc"], [*"abcaab"])
    assert build_score("classification", "matthews", [run]) is None


def test_the_mean_f1_of_sentences_is_resampled_by_document() -> None:
    target = [["a", "b"], ["b"], ["c", "a", "a"]]
    run = Predictions([*"abc"], target, [["a", "a"], ["b"], ["c", "b", "a"]])
    score = build_score("document", "macro_f1", [run])
    assert score is not None
    assert score.shape == (1, 3)
    twice = score.evaluate(np.array([[1, 1, 1], [2, 0, 1]], np.uint8))[:, 0]
    drawn = replace(
        run,
        target=[target[idx] for idx in (0, 0, 2)],
        prediction=[run.prediction[idx] for idx in (0, 0, 2)],
    )
    expected = [measure("document", ["macro_f1"], item)["macro_f1"] for item in (run, drawn)]
    assert twice == pytest.approx(expected)


@pytest.mark.parametrize("metric", ["macro_f1", "micro_f1", "exact_match"])
def test_sets_of_labels_are_resampled(metric: str) -> None:
    target = [["a", "b"], ["b"], [], ["c"]]
    run = Predictions([*"abc"], target, [["b", "a"], ["b", "c"], [], ["a"]])
    score = build_score("multi_label", metric, [run])
    assert score is not None
    rows = [0, 1, 1, 3]
    drawn = replace(
        run,
        target=[target[row] for row in rows],
        prediction=[run.prediction[row] for row in rows],
    )
    counts = np.array([[1, 1, 1, 1], [1, 2, 0, 1]], np.uint8)
    expected = [measure("multi_label", [metric], item)[metric] for item in (run, drawn)]
    assert score.evaluate(counts)[:, 0] == pytest.approx(expected)


def test_predictions_name_the_metrics_of_their_results() -> None:
    path = find_examples("distillation", "sst2_student", ROOT)
    honest, paper = read_runs(path)
    assert honest.find_metric("dev.auc") == paper.find_metric("dev.auc.paper") == "auc"
    assert [honest.find_metric(name) for name in ("dev.auc.paper", "test.auc", "dev.area")] == [
        None
    ] * 3


def test_holm_multiplies_the_smallest_most_and_keeps_the_order() -> None:
    pairs = [Pair("a", "b"), Pair("a", "c"), Pair("b", "c")]
    found = correct_holm(dict(zip(pairs, [0.01, 0.04, 0.03], strict=True)))
    assert [found[pair] for pair in pairs] == pytest.approx([0.03, 0.06, 0.06])
    assert correct_holm({pairs[0]: 0.9})[pairs[0]] == 0.9


def test_rows_share_a_letter_unless_their_difference_is_significant() -> None:
    values = {Pair("a", "b"): 0.5, Pair("a", "c"): 0.01, Pair("b", "c"): 0.2}
    assert name_groups(["a", "b", "c"], values) == {"a": "a", "b": "ab", "c": "b"}
    assert name_groups(["a", "b"], {Pair("a", "b"): 0.01}) == {"a": "a", "b": "b"}
    assert name_groups(["a", "b"], {Pair("a", "b"): 0.5}) == {"a": "a", "b": "a"}


def test_the_coefficient_of_variation_is_corrected_for_small_samples() -> None:
    values = [90.0, 92.0, 94.0]
    c4 = math.sqrt(2 / 2) * math.gamma(1.5) / math.gamma(1.0)
    assert measure_variation(values) == pytest.approx(100 * (1 + 1 / 12) * 2.0 / c4 / 92.0)
    assert measure_variation([80.0, 80.0]) == 0.0


def test_a_report_gives_each_row_its_interval_and_letters() -> None:
    findings = find_differences(read_comparison("sample", ROOT), ROOT)
    assert {finding.column for finding in findings} == {"accuracy", "F1", "AUC", "MAP", "MRR"}
    for finding in findings:
        for row in finding.rows:
            assert row.interval.low < row.mean < row.interval.high
            assert row.letters == "a"
    text = render_differences(findings)
    assert "**Sentence classification, accuracy.** 300 examples" in text
    assert findings == find_differences(read_comparison("sample", ROOT), ROOT)
    assert find_examples("sample", "sample_answer_cnn", ROOT).exists()
    assert render_differences([]) == ""


def test_rows_on_other_examples_are_not_compared() -> None:
    comparison = read_comparison("sample", ROOT)
    (part,) = (part for part in comparison.parts if part.config.title == "Sentence classification")
    entries = [entry for entry in part.entries if entry.column == "accuracy"]
    rows = [replace(entries[0], row=name, cell=name) for name in ("whole", "same", "other")]
    runs = read_runs(find_examples("sample", str(entries[0].cell), ROOT))[0]
    shifted = replace(runs, ids=tuple(number + 1 for number in runs.ids))
    found = compare_rows(
        replace(comparison, parts=[replace(part, entries=rows)]),
        {"whole": [runs], "same": [runs], "other": [shifted]},
    )
    assert [[row.row for row in item.rows] for item in found] == [["whole", "same"], ["other"]]
    assert [item.pairs for item in found] == [(0, 1), (0, 0)]
    table = PaperTable(comparison, found)
    seen = [table.find_row(part, entry) for entry in rows]
    assert [row and row.row for row in seen] == ["whole", "same", "other"]


def test_milliseconds_and_megabytes_are_better_when_fewer() -> None:
    assert is_lower_better("latency.p50")
    assert is_lower_better("size.megabytes")
    assert is_lower_better("dev.rmse")
    assert not is_lower_better("speed.per_second")


def test_a_label_that_only_a_resample_lacks_is_left_out() -> None:
    rare = Predictions(["no", "yes"], ["no"] * 297 + ["yes"] * 3, ["no"] * 297 + ["yes"] * 3)
    exact = 100 * 0.025 ** (1 / 300)
    for metric in ("f1", "macro_f1"):
        score = build_score("classification", metric, [rare])
        assert score is not None
        assert resample(score).interval == pytest.approx((exact, 100.0))
    # one label is right once and never predicted; the other has every resample
    run = Predictions(["a", "b", "c"], ["a", "b", "b"], ["b", "b", "b"])
    score = build_score("classification", "macro_f1", [run])
    assert score is not None
    assert score.values == pytest.approx([100 * 0.8 / 3])
    only_b = np.array([[0, 2, 1]], np.uint8)
    assert score.evaluate(only_b) == pytest.approx(np.array([[50.0]]))


def test_an_interval_stays_within_the_possible_values() -> None:
    wrong = Predictions(["no", "yes"], ["no"] * 300, ["yes"] * 300)
    score = build_score("classification", "accuracy", [wrong])
    assert score is not None
    assert resample(score).interval == pytest.approx((0.0, 100 * (1 - 0.025 ** (1 / 300))))
    runs = [
        Predictions(["no", "yes"], ["no"] * 277, ["no"] * hits + ["yes"] * (277 - hits))
        for hits in (0, 1, 12)
    ]
    score = build_score("classification", "accuracy", runs)
    assert score is not None
    assert resample(score).interval.low == 0.0
    summands = np.tile([200.0, 40.0], (3, 50, 1))
    summands[..., 0] += np.arange(50)
    perplexity = score_terms("masked_language_model", "perplexity", summands)
    assert perplexity is not None
    above = resample(perplexity).interval
    mean = float(np.exp(summands[0, :, 0].sum() / summands[0, :, 1].sum()))
    assert mean > 100
    assert above.low < mean < above.high
    wide = Resamples(mean, np.full(9, mean), mean**2, 3, bounds=(1.0, np.inf)).interval
    assert wide == pytest.approx(mean * np.exp([-stats.t.ppf(0.975, 2), stats.t.ppf(0.975, 2)]))


def test_the_difference_that_a_split_resolves_is_found_in_four_of_five_trials() -> None:
    """By Student's noncentral t, with the seeds as the only error."""
    first, second = (Resamples(mean, np.full(10, mean), 1.0, 3) for mean in (0.0, 1.0))
    needed = measure_spread(first, second) / np.sqrt(2)
    freedom = 4
    power = stats.nct.sf(stats.t.ppf(0.975, freedom), freedom, needed)
    assert power == pytest.approx(0.8, abs=0.03)
