"""The committed predictions give the committed scores; they hold no text."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nlp_core.config.params import Params
from nlp_core.errors import DataError
from nlp_core.metrics import Predictions, measure
from nlp_core.report.cell import CellTask, TrainedCell, read_trained
from nlp_core.report.comparison import list_tables, read_comparison
from nlp_core.report.evaluation import evaluate_cell
from nlp_core.report.example_writing import _list_scores, write_examples
from nlp_core.report.examples import find_examples, measure_examples, read_runs
from nlp_core.report.results import CellResult, read_results
from nlp_core.report.significance import find_differences
from nlp_core.site.breakdown import list_questions
from nlp_core.statistics import build_score, resample
from nlp_core.training.cell import read_cell
from nlp_core.training.cell_run import train_cell
from tests.tiny import make_recipe, write_task
from tests.tiny_training import make_params, project

__all__ = ["project"]
ROOT = Path(__file__).resolve().parent.parent
RESULTS = sorted((ROOT / "results").glob("*.json"))
COMMITTED = [
    (path.stem, name)
    for path in RESULTS
    for name, cell in json.loads(path.read_text())["cells"].items()
    if cell.get("runs") and find_examples(path.stem, name, ROOT).exists()
]


def assert_scores(found: dict[str, list[float]], expected: CellResult) -> None:
    assert found
    for name, values in found.items():
        # results have six decimal places, probabilities are in 32 bits, perplexities up to 1e5
        assert values == pytest.approx(expected.metrics[name].values, rel=1e-9, abs=2e-6), name


@pytest.mark.parametrize(("wrong", "bits"), [(0.3 + 1e-10, 64), (0.3, 32), (0.4, 32)])
def test_scores_keep_64_bits_where_32_tie_a_right_and_a_wrong_candidate(
    wrong: float, bits: int
) -> None:
    task = CellTask.model_construct(kind="ranking", labels=["0", "1"])
    score = [[0.7, 0.3], [1 - wrong, wrong]]
    found = _list_scores(pa.table({"target": ["1", "0"], "score": score}), task)
    assert found.type.value_type.bit_width == bits


@pytest.mark.parametrize(("table", "name"), COMMITTED)
def test_committed_predictions_give_the_committed_scores(table: str, name: str) -> None:
    expected = read_results(table, ROOT).cells[name]
    assert_scores(measure_examples(find_examples(table, name, ROOT)), expected)


@pytest.mark.parametrize(
    "kind", ["classification", "multi_label", "tagging", "ranking", "pair_regression"]
)
@pytest.mark.parametrize("held_out", [False, True])
def test_every_kind_is_measured_as_before(project: Path, kind: str, *, held_out: bool) -> None:
    write_task(project, kind, held_out=held_out)
    params = make_params(kind, make_recipe(epochs=1))
    path, expected = train_and_write(params, project)
    assert_scores(measure_examples(path), expected)
    columns = set(pq.read_table(path).column_names)
    assert not columns & {"text", "tokens", "tokens_a", "tokens_b"}


SPANS = [["Rome", "the city"], ["1999"], []], [["Rome", "1999", ""], ["a city", "in 1999", "now"]]
TEXTS = (
    ["turn the light on", "play a song now please", "stop"],
    [["turn the light off", "play a song now please", ""], ["turn light on", "play", "stop"]],
)


@pytest.mark.parametrize(
    ("kind", "metrics", "answers"),
    [
        ("span", ["exact_match", "f1"], SPANS),
        ("generation", ["bleu", "chrf", "rouge_l", "exact_match"], TEXTS),
    ],
)
def test_of_texts_only_sums_are_stored(
    tmp_path: Path, kind: str, metrics: list[str], answers: tuple[list[object], list[list[str]]]
) -> None:
    target, found = answers
    for seed, prediction in enumerate(found, start=1):
        path = tmp_path / f"seed-{seed}/predictions/t.parquet"
        path.parent.mkdir(parents=True)
        columns = {"id": range(3), "split": ["test"] * 3, "selection": ["honest"] * 3}
        pq.write_table(pa.table(columns | {"target": target, "prediction": prediction}), path)
    facts = {"kind": kind, "labels": [], "metrics": metrics, "report_split": "test", "scheme": None}
    build_task: Any = CellTask.model_construct  # only what the examples need
    build_cell: Any = TrainedCell.model_construct
    cell = build_cell(seeds=[1, 2], tasks={"t": build_task(**facts)})
    write_examples(tmp_path / "cell.parquet", tmp_path, cell)

    runs = [Predictions([], target, prediction) for prediction in found]
    expected = [measure(kind, metrics, run) for run in runs]
    assert measure_examples(tmp_path / "cell.parquet") == {
        f"test.{metric}": pytest.approx([values[metric] for values in expected])
        for metric in metrics
    }
    read = read_runs(tmp_path / "cell.parquet")[0]
    for metric in metrics:
        score, direct = read.build_score(metric), build_score(kind, metric, runs)
        assert score is not None
        assert direct is not None
        assert resample(score, rounds=50).interval == resample(direct, rounds=50).interval
    content = (tmp_path / "cell.parquet").read_bytes()
    assert b"Rome" not in content
    assert b"light" not in content


def test_a_metric_without_sums_has_no_score(tmp_path: Path) -> None:
    target, (prediction, _) = SPANS
    path = tmp_path / "seed-1/predictions/t.parquet"
    path.parent.mkdir(parents=True)
    columns = {"id": range(3), "split": ["test"] * 3, "selection": ["honest"] * 3}
    pq.write_table(pa.table(columns | {"target": target, "prediction": prediction}), path)
    build_task: Any = CellTask.model_construct
    build_cell: Any = TrainedCell.model_construct
    facts = {"kind": "span", "labels": ["answerable"], "metrics": ["f1@answerable"]}
    task = build_task(**facts, report_split="test", scheme=None)
    write_examples(tmp_path / "cell.parquet", tmp_path, build_cell(seeds=[1], tasks={"t": task}))
    assert measure_examples(tmp_path / "cell.parquet") == {}
    (runs,) = read_runs(tmp_path / "cell.parquet")
    assert runs.build_score("f1@answerable") is None


def train_and_write(params: Params, root: Path) -> tuple[Path, CellResult]:
    folder = train_cell(read_cell("tiny", params))
    path = find_examples("sample", "tiny", root)
    write_examples(path, folder, read_trained("tiny", params.experiments["tiny"], params, root))
    return path, evaluate_cell("tiny", params, root)


@pytest.mark.parametrize("labels", [["x"], ["x", "y"]])
def test_labels_that_may_meet_keep_their_probabilities_and_seeds_may_be_large(
    tmp_path: Path, labels: list[str]
) -> None:
    task = {"kind": "multi_label", "labels": labels, "metrics": ["average_precision"]}
    task |= {"scheme": None, "footnotes": [], "select_split": "dev", "report_split": "test"}
    cell = TrainedCell.model_validate(
        {
            **{"table": "t", "cell": "c", "model": "m", "recipe": "r", "seeds": [1, 70000]},
            **{"init": None, "parameters": {}, "fingerprint": {}, "numerics": 1, "runs": {}},
            **{"tasks": {"words": task}, "data": {}},
        }
    )
    score = [[0.75, 0.625][: len(labels)], [0.25, 0.5][: len(labels)]]
    answers = [["x"], []]
    columns = {"split": ["test"] * 2, "selection": ["honest"] * 2, "id": [0, 1], "score": score}
    for seed in cell.seeds:
        folder = tmp_path / f"seed-{seed}" / "predictions"
        folder.mkdir(parents=True)
        table = pa.table(columns | {"target": answers, "prediction": answers})
        pq.write_table(table, folder / "words.parquet")
    write_examples(tmp_path / "c.parquet", tmp_path, cell)
    (runs,) = read_runs(tmp_path / "c.parquet")
    assert [run.score.tolist() for run in runs.predictions if run.score is not None] == [score] * 2


def test_the_order_of_sure_candidates_is_kept(tmp_path: Path) -> None:
    """In 32 bits 1e-60, the probability of the wrong label, is 0."""
    task = {"kind": "ranking", "labels": ["0", "1"], "metrics": ["map", "auc"]}
    task |= {"scheme": None, "footnotes": [], "select_split": "dev", "report_split": "test"}
    cell = TrainedCell.model_validate(
        {
            **{"table": "t", "cell": "c", "model": "m", "recipe": "r", "seeds": [1, 2]},
            **{"init": None, "parameters": {}, "fingerprint": {}, "numerics": 1, "runs": {}},
            **{"tasks": {"words": task}, "data": {}},
        }
    )
    target = ["0", "1", "0"]
    scores = {
        1: [[1e-40, 1.0], [1e-60, 1.0], [0.5, 0.5]],
        2: [[0.25, 0.75], [0.5, 0.5], [1.0, 0.0]],
    }
    columns = {"split": ["test"] * 3, "selection": ["honest"] * 3, "id": [0, 1, 2]}
    columns |= {"target": target, "prediction": ["1", "1", "0"], "group": [0, 0, 0]}
    for seed, score in scores.items():
        folder = tmp_path / f"seed-{seed}" / "predictions"
        folder.mkdir(parents=True)
        pq.write_table(pa.table(columns | {"score": score}), folder / "words.parquet")
    write_examples(tmp_path / "c.parquet", tmp_path, cell)
    found = measure_examples(tmp_path / "c.parquet")
    assert found == {"test.map": [100.0, 50.0], "test.auc": [100.0, 50.0]}
    (runs,) = read_runs(tmp_path / "c.parquet")
    assert [question.ranks for question in list_questions(runs)] == [[1, 2]]


def test_seeds_keep_the_order_of_the_cell(tmp_path: Path) -> None:
    task = {"kind": "classification", "labels": ["no", "yes"], "metrics": ["accuracy"]}
    task |= {"scheme": None, "footnotes": [], "select_split": "dev", "report_split": "test"}
    cell = TrainedCell.model_validate(
        {
            **{"table": "t", "cell": "c", "model": "m", "recipe": "r", "seeds": [3, 1, 2]},
            **{"init": None, "parameters": {}, "fingerprint": {}, "numerics": 1, "runs": {}},
            **{"tasks": {"words": task}, "data": {}},
        }
    )
    answers = {3: ["yes", "yes"], 1: ["no", "no"], 2: ["yes", "no"]}
    columns = {"split": ["test"] * 2, "selection": ["honest"] * 2, "id": [0, 1]}
    for seed, prediction in answers.items():
        folder = tmp_path / f"seed-{seed}" / "predictions"
        folder.mkdir(parents=True)
        table = pa.table(columns | {"target": ["yes", "yes"], "prediction": prediction})
        pq.write_table(table, folder / "words.parquet")
    write_examples(tmp_path / "c.parquet", tmp_path, cell)
    assert measure_examples(tmp_path / "c.parquet") == {"test.accuracy": [100.0, 0.0, 50.0]}


def test_kept_splits_are_runs_of_their_own(project: Path) -> None:
    write_task(project, "tagging")
    params = make_params("tagging", make_recipe(epochs=1))
    path, expected = train_and_write(params, project)
    (reported,) = read_runs(path)
    folder, other = project / "artifacts/cells/sample/tiny", project / "more.parquet"
    cell = read_trained("tiny", params.experiments["tiny"], params, project)
    splits = {name.partition(".")[0] for name in expected.metrics}
    (kept,) = splits - {reported.split}
    write_examples(other, folder, cell, [kept])
    assert {runs.split for runs in read_runs(other)} == splits
    found = measure_examples(other)
    assert_scores(found, expected)
    assert {name.partition(".")[0] for name in found} == splits
    assert all(runs.find_metric(f"{runs.split}.f1") == "f1" for runs in read_runs(other))
    with pytest.raises(DataError, match="kept_splits: found no predictions of the split 'dve'"):
        write_examples(other, folder, cell, ["dve"])


@pytest.mark.parametrize("table", list_tables(ROOT))
def test_every_number_of_a_report_has_an_interval(table: str) -> None:
    comparison = read_comparison(table, ROOT)
    known = {
        (finding.part, row.row, finding.column, finding.selection)
        for finding in find_differences(comparison, ROOT)
        for row in finding.rows
    }
    missing = [
        (part.config.title, entry.row, entry.column, entry.metric)
        for part in comparison.parts
        for entry in part.entries
        if entry.ours is not None
        and (part.config.title, entry.row, entry.column, entry.selection) not in known
        and comparison.find_mean_interval(entry) is None
    ]
    assert not missing


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file; measure the cell again"):
        measure_examples(tmp_path / "none.parquet")


@pytest.mark.parametrize("damage", ["cut", "no facts"])
def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "cell.parquet"
    pq.write_table(pa.table({"seed": [1]}), path)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(DataError, match=r"cell\.parquet: .*take the committed file from Git again"):
        read_runs(path)
