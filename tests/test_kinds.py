import ast
import importlib
import json
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from nlp_core.config.user_data import DataConfig
from nlp_core.data.guess import guess_data
from nlp_core.data.preprocess import preprocess_source
from nlp_core.data.readers.user import read_examples
from nlp_core.data.task import read_task
from nlp_core.kinds import KINDS, Kind
from nlp_core.metrics import METRICS, has_metric, measure
from nlp_core.prediction.split_prediction import (
    SplitPredictions,
    describe_predictions,
    write_predictions,
)
from tests.tiny_source import TASK, build, put

ROOT = Path(__file__).resolve().parent.parent
TOY_KIND = """
from nlp_core.kinds import LABELS, PAIR_COLUMNS, PAIR_TEXTS, Column, Kind, Target, UserFile
from nlp_core.kinds import register
from nlp_core import metrics

PAIR_MULTI_LABEL = register(
    Kind(
        name="pair_multi_label",
        columns=(*PAIR_COLUMNS, Column(LABELS, "texts")),
        targets=(Target(LABELS, "texts", "texts"),),
        texts=PAIR_TEXTS,
        user_file=UserFile(("overlap",), PAIR_TEXTS, LABELS, keys=("label_separator",)),
    )
)


@metrics.register("overlap", "pair_multi_label")
def measure_overlap(predictions):
    pairs = list(zip(predictions.target, predictions.prediction, strict=True))
    return sum(bool({*right} & {*found}) for right, found in pairs) / len(pairs)
"""
ROWS = "a\tb\tc\nx y\tz\tgood,old\nw\tv u\told\n"
OTHER_KINDS = ("sample.py", "tagging_scheme.py", "documentation.py", "verification.py")
"""Files whose `kind` is something else: of a sentence, an entity, a schema, an instruction."""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kind:
    (tmp_path / "toy_kind.py").write_text(TOY_KIND)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "toy_kind", raising=False)
    monkeypatch.setitem(METRICS, "pair_multi_label", {})
    monkeypatch.setattr(KINDS, "_items", dict(KINDS._items))
    kind: Kind = importlib.import_module("toy_kind").PAIR_MULTI_LABEL
    return kind


def test_a_new_kind_is_one_file(toy: Kind, tmp_path: Path) -> None:
    content = TASK | {
        "kind": toy.name,
        "reader": {"name": "tsv", "texts": ["a", "b"], "label": "c", "label_separator": ","},
        "labels": ["good", "old"],
        "metrics": ["overlap"],
        "splits": {"dev": {"file": "dev.tsv", "rows": 2}},
        "select_split": "dev",
        "held_out": None,
    }
    put(tmp_path, {"dev.tsv": ROWS})
    preprocess_source("d", build({"task": content}, ["dev.tsv"]), tmp_path)
    folder = tmp_path / "processed/d"
    assert pq.read_schema(folder / "dev.parquet").names == [*toy.column_names]
    note = json.loads((folder / "manifest.json").read_text())
    assert (note["kind"], note["splits"]["dev"]["labels"]) == (toy.name, {"good": 1, "old": 2})

    task = read_task(folder)
    split = task.read_split("dev")
    assert (task.kind, task.targets) == (toy, {"labels": ["good", "old"]})
    assert split.target == [("good", "old"), ("old",)]
    assert split.texts["tokens_b"].row(1) == ["v", "u"]

    found = SplitPredictions(split, {"labels": [["good"], ["good"]]}, None)
    assert measure(toy.name, task.metrics, describe_predictions(task, found)) == {"overlap": 50.0}
    write_predictions(tmp_path / "p.parquet", task, {"honest": [found]})
    (first, _) = pq.read_table(tmp_path / "p.parquet").to_pylist()
    assert (first["target"], first["prediction"]) == (["good", "old"], ["good"])


def test_a_new_kind_is_read_from_a_users_file(toy: Kind, tmp_path: Path) -> None:
    path = tmp_path / "in.tsv"
    path.write_text(ROWS.replace("a\tb\tc", "text_a\ttext_b\tlabels"))
    data = guess_data(path, toy).data
    assert isinstance(data, DataConfig)
    assert (data.texts, data.label, data.label_separator) == (["text_a", "text_b"], "labels", ",")
    assert data.metrics_or_usual == ["overlap"]
    assert [item.targets["labels"] for item in read_examples(path, data)] == [
        ["good", "old"],
        ["old"],
    ]


@pytest.mark.parametrize("name", KINDS.names())
def test_every_kind_is_consistent(name: str) -> None:
    kind = KINDS.get(name)
    assert str(kind) == kind.name == name
    assert {*kind.texts} <= {*kind.column_names}
    stored = {*kind.target_names} - {"next_word", "masked"}
    assert stored <= {*kind.column_names}
    assert {*kind.user_file.plain_metrics} <= {*kind.user_file.metrics}
    assert all(has_metric(kind.name, metric) for metric in kind.user_file.metrics)
    assert bool(kind.user_file.formats) == bool(kind.user_file.metrics)


def test_hardly_anything_asks_which_kind_it_is() -> None:
    found = []
    for path in sorted([*ROOT.glob("nlp_core/**/*.py"), *ROOT.glob("stages/*.py")]):
        if path.name not in OTHER_KINDS:
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found += [f"{path.name}: {ast.unparse(node)}" for node in ast.walk(tree) if _asks(node)]
    assert len(found) < 10, "\n".join(found)


def _asks(node: ast.AST) -> bool:
    """Say whether a node compares the name of a kind, or looks at its beginning or end."""
    if isinstance(node, ast.Compare):
        parts = [node.left, *node.comparators]
        return any(ast.unparse(part).endswith(("kind", "kind.name")) for part in parts)
    return isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
        ("kind.startswith", "kind.endswith", "kind.name.startswith", "kind.name.endswith")
    )
