"""The formats of sources: a new one is one file, and each serves some kinds."""

import json
import sys
from pathlib import Path

import pytest

from nlp_core.config.reader import READERS
from nlp_core.data import formats
from nlp_core.data.preprocess import preprocess_source
from nlp_core.data.task import read_task
from nlp_core.errors import ConfigError
from nlp_core.kinds import KINDS, Kind
from tests.tiny_source import TASK, build, put

TOY = '''
from typing import Literal

from nlp_core.config.reader import READERS, SourceReader
from nlp_core.data.readers.example import Example
from nlp_core.data.readers.lines import read_lines, refuse


@READERS.register("toy")
class ToyReader(SourceReader):
    """A label, a mark and a text a line."""

    name: Literal["toy"]
    mark: str
    """What ends the label."""

    @classmethod
    def serves(cls, kind):
        return kind.name == "classification"

    def check(self, task):
        if self.mark in task.labels:
            raise ValueError(f"reader.mark: found the label {self.mark}, expected another text.")

    def read(self, task, name, path):
        rows = []
        for line in read_lines(path):
            label, mark, text = line.text.partition(self.mark)
            if not mark:
                raise refuse(path, line.number, f"found no {self.mark}")
            rows.append(Example(line.number, text.strip(), None, label))
        return rows
'''


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for data; the package of formats has one more file."""
    READERS.names()
    (tmp_path / "toy.py").write_text(TOY)
    monkeypatch.setattr(formats, "__path__", [*formats.__path__, str(tmp_path)])
    monkeypatch.setattr(READERS, "_items", dict(READERS._items))
    monkeypatch.setattr(READERS, "_package", formats.__name__)
    monkeypatch.delitem(sys.modules, f"{formats.__name__}.toy", raising=False)
    return tmp_path


def describe(**reader: object) -> dict[str, object]:
    return TASK | {
        "reader": {"name": "toy", "mark": ":", **reader},
        "labels": ["bad", "good"],
        "splits": {"dev": {"file": "dev.txt", "rows": 2}},
        "select_split": "dev",
        "report_split": "dev",
        "held_out": None,
    }


def test_a_new_format_is_one_file(toy: Path) -> None:
    put(toy, {"dev.txt": "good: a fine film\nbad: not so\n"})
    preprocess_source("d", build({"task": describe()}, ["dev.txt"]), toy)
    split = read_task(toy / "processed/d").read_split("dev")
    assert split.target == ["good", "bad"]
    assert split.texts["tokens"].row(0) == ["a", "fine", "film"]
    note = json.loads((toy / "processed/d/manifest.json").read_text())
    assert note["splits"]["dev"]["labels"] == {"bad": 1, "good": 1}


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize(
    ("reader", "message"),
    [
        ({"name": "toys"}, r"task\.reader: unknown reader 'toys'\. Did you mean 'toy'"),
        ({"marks": ":"}, r"task\.reader: toy: marks: unknown key\. Did you mean 'mark'"),
        ({"mark": 1}, r"task\.reader: toy: mark: found 1; input should be a valid string"),
        ({"mark": "bad"}, r"reader\.mark: found the label bad, expected another text"),
        ({"name": "squad", "mark": None}, r"task\.reader: squad: mark: unknown key"),
    ],
)
def test_its_keys_are_checked(reader: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build({"task": describe(**reader)}, ["dev.txt"])


def serving(kind: Kind) -> list[str]:
    return [name for name in READERS.names() if READERS.get(name).serves(kind)]


def test_each_kind_of_a_source_has_a_format() -> None:
    found = {name: serving(KINDS.get(name)) for name in KINDS.names()}
    assert found.pop("masked_language_model") == []
    assert found == {
        "classification": ["jsonl", "trec", "tsv"],
        "dialogue": ["dialogues"],
        "document": ["documents"],
        "generation": ["jsonl", "squad_questions", "tsv"],
        "intent_slots": ["parallel"],
        "language_model": ["lines"],
        "multi_label": ["tsv"],
        "pair_classification": ["jsonl", "mrpc", "tsv", "wic", "wsc"],
        "pair_regression": ["jsonl", "tsv"],
        "parsing": ["parallel", "trees"],
        "ranking": ["copa", "multirc", "record", "tsv", "wikiqa"],
        "regression": ["jsonl", "tsv"],
        "retrieval": ["squad_paragraphs", "tsv", "wikiqa"],
        "span": ["squad"],
        "tagging": ["conll"],
    }
