"""Vectors of tokens that were computed before: from the user's file to a model and a bundle."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nlp_core.cli import main
from nlp_core.config.user_data import DataConfig
from nlp_core.data.split_column import NumberColumn, TextColumn
from nlp_core.data.task import Split
from nlp_core.data.user_file import read_user_file, write_user_file
from nlp_core.errors import DataError
from nlp_core.export.real_examples import list_examples
from nlp_core.prediction.trained_model import TrainedModel
from reglue_runtime import BundleError, load
from tests.user_commands import fail
from tests.user_files import read_rows

WIDTH = 4
NAME = "token_vectors.context"


def make_rows(size: int) -> list[dict[str, Any]]:
    """Make sentences of one word whose vectors say its tag."""
    generator = np.random.default_rng(1)
    rows = []
    for _ in range(size):
        tags = generator.integers(0, 2, generator.integers(1, 5))
        vectors = generator.normal(size=(len(tags), WIDTH)).round(3) + 3 * tags[:, None]
        rows.append(
            {
                "tokens": ["bank"] * len(tags),
                "vectors": vectors.tolist(),
                "tags": ["river" if tag else "money" for tag in tags],
            }
        )
    return rows


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def describe(form: str = "jsonl", **values: Any) -> DataConfig:
    columns = {"texts": ["tokens"], "label": "tags", "token_vectors": {"context": "vectors"}}
    settings = {"kind": "tagging", "format": form, "scheme": "plain", "tokens": "spaces"}
    return DataConfig.model_validate({**settings, **columns, **values})


def write_model(path: Path, form: str) -> None:
    layers = [{"name": "vector", "block": "dense_features", "inputs": ["vectors"], "width": WIDTH}]
    model = {
        "description": "vectors of tokens",
        "source": "a test",
        "inputs": {"vectors": NAME},
        "layers": layers,
        "heads": {"tags": {"head": "tagging", "inputs": ["vector"]}},
        "data": describe(form).model_dump(mode="json", exclude_unset=True),
        "training": {"epochs": 10, "optimizer": {"lr": 0.1}, "batch_size": 8},
    }
    path.write_text(json.dumps(model))


def test_vectors_are_stored_as_numbers_of_32_bits(place: Path) -> None:
    rows = make_rows(6)
    data = describe()
    write_user_file(place, write(place / "a.jsonl", rows), data)
    stored = pq.read_table(place / "examples.parquet")
    assert stored.schema.field(NAME).type.value_type == pa.float32()
    column = read_user_file(place / "a.jsonl", data, "train", ()).numbers[NAME]
    expected = np.concatenate([row["vectors"] for row in rows])
    assert column.values.dtype == np.float32
    np.testing.assert_allclose(column.values, expected, rtol=1e-6)
    assert column.offsets is not None
    assert np.diff(column.offsets).tolist() == [len(row["tokens"]) for row in rows]
    part = column.subset(np.array([4, 2])).list_rows()
    np.testing.assert_allclose(part[1], rows[2]["vectors"], rtol=1e-6)


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        ([[1.0] * WIDTH], r"line 3: found 2 tokens and '\[\[1.0, .* expected a vector for each"),
        ("1 2", "line 3: found 2 tokens and '1 2' in 'vectors', expected a vector for each token"),
        ([[1.0] * WIDTH, [1.0]], "found vectors of 1 and of 4 numbers in 'vectors', expected one"),
        ([[1.0], [1.0]], "line 3: found 1 number in 'vectors', expected 4 as in the first row"),
        ([[1.0] * WIDTH, ["x"] * WIDTH], r"found .* in 'vectors', expected finite numbers"),
    ],
)
def test_other_widths_are_errors_with_their_line(
    place: Path, vectors: object, message: str
) -> None:
    rows = make_rows(2)
    rows.append({"tokens": ["a", "b"], "vectors": vectors, "tags": ["river", "money"]})
    with pytest.raises(DataError, match=message):
        write_user_file(place, write(place / "a.jsonl", rows), describe())


def test_a_format_without_lists_has_no_vectors() -> None:
    with pytest.raises(ValueError, match="token_vectors: found with tsv"):
        describe("tsv")


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_a_model_learns_from_vectors_and_predicts(place: Path, suffix: str) -> None:
    path = write(place / f"a{suffix}", make_rows(60))
    write_model(place / "m.json", suffix[1:])
    main(["train", "m.json", "--train", path.name, "-o", "out"])
    assert json.loads((place / "out/metrics.json").read_text())["metrics"]["dev"]["accuracy"] > 90
    main(["predict", "out", "--data", path.name, "-o", f"p{suffix}"])
    rows = read_rows(place / f"p{suffix}")
    hits = [row["prediction"] == row["tags"] for row in rows]
    assert np.mean(hits) > 0.9


def test_vectors_of_one_number_stay_vectors_in_an_example() -> None:
    column = TextColumn.build(["a", "b"], np.array([0, 2]))
    numbers = {NAME: NumberColumn.build(NAME, [[[1.0], [2.0]]])}
    split = Split("test", np.arange(1), {"tokens": column}, {}, None, numbers)
    trained = cast(TrainedModel, SimpleNamespace(texts=["text"]))
    (example,) = list_examples(trained, split, np.arange(1))
    assert example == {"tokens": ["a", "b"], NAME: [[1.0], [2.0]]}


@pytest.mark.slow
def test_a_bundle_reads_vectors(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(place / "a.jsonl", make_rows(60))
    write_model(place / "m.json", "jsonl")
    main(["train", "m.json", "--train", path.name, "-o", "out"])
    main(["export", "out", "--to", "bundle", "--data", "a.jsonl"])
    bundle, row = load(place / "bundle", sizes=[4]), make_rows(3)[2]
    (found,) = bundle.predict([{"tokens": row["tokens"], NAME: row["vectors"]}])
    assert found["tags"] == row["tags"]
    with pytest.raises(BundleError, match=f"example 1: found .* vectors of {WIDTH} numbers"):
        bundle.predict([{"tokens": row["tokens"], NAME: [[1.0]] * len(row["tokens"])}])
    assert TrainedModel.open(place / "out").describe_data().extras == {NAME: "vectors"}
    timed = ["--against", "out", "--data", "a.jsonl", "--sentences", "1", "--batches", "1"]
    main(["bench", "bundle", *timed])
    assert "eager" in capsys.readouterr().out
    other = [{**row, "vectors": [vector[:2] for vector in row["vectors"]]}]
    write(place / "b.jsonl", other)
    said = fail(capsys, "test", "out", "--data", "b.jsonl")
    assert "found 2 numbers per row in a column that the model reads, expected 4" in said
