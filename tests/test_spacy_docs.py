"""Documents of spaCy: entities for tagging, categories for classification."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from nlp_core.data.guess import guess_data
from nlp_core.data.kind_guess import guess_kind
from nlp_core.data.readers.spacy_docs import read_docs
from nlp_core.data.readers.user import read_examples
from nlp_core.errors import DataError
from nlp_core.kinds import CLASSIFICATION, MULTI_LABEL, TAGGING


class Span(NamedTuple):
    start_char: int
    end_char: int
    label_: str


class Doc(NamedTuple):
    text: str
    ents: tuple[Span, ...] = ()
    cats: dict[str, float] = {}  # noqa: RUF012


PEOPLE = [
    Doc("Anna flew to Oslo .", (Span(0, 4, "PERSON"), Span(13, 17, "GPE"))),
    Doc("it is cold ."),
    Doc("Rome is warm .", (Span(0, 4, "GPE"),)),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "a.spacy"
    found.write_bytes(b"x")
    return found


def pretend(patch: pytest.MonkeyPatch, docs: list[Doc]) -> None:
    """Let spaCy be a library that reads these documents."""

    class DocBin:
        def from_disk(self, path: Path) -> "DocBin":
            return self

        def get_docs(self, vocab: object) -> list[Doc]:
            if not docs:
                raise ValueError("bad\nbytes")
            return docs

    spacy, tokens = ModuleType("spacy"), ModuleType("spacy.tokens")
    spacy.blank = lambda name: Doc(name)  # type: ignore[attr-defined]
    Doc.vocab = None  # type: ignore[attr-defined]
    tokens.DocBin = DocBin  # type: ignore[attr-defined]
    patch.setitem(sys.modules, "spacy", spacy)
    patch.setitem(sys.modules, "spacy.tokens", tokens)


def test_entities_are_tags(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, PEOPLE)
    found = guess_kind(path)
    assert found.kind == TAGGING
    data = guess_data(path, TAGGING).data
    assert (data.format, data.texts, data.label) == ("spacy", ["text"], "entities")
    first, second, _ = read_examples(path, data)
    assert first.targets["tags"] == ["B-PERSON", "O", "O", "B-GPE", "O"]
    assert second.targets["tags"] == ["O"] * 4


def test_categories_are_labels(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = [Doc(f"word {idx % 5}", cats={"a": idx % 2, "b": 1 - idx % 2}) for idx in range(20)]
    pretend(monkeypatch, one)
    assert guess_kind(path).kind == CLASSIFICATION
    data = guess_data(path, CLASSIFICATION).data
    assert [item.targets["label"] for item in read_examples(path, data)][:2] == [["b"], ["a"]]
    many = [doc._replace(cats={"a": 0.7, "b": 0.5, "c": 0.2}) for doc in one[:5]] + one
    pretend(monkeypatch, many)
    data = guess_data(path, MULTI_LABEL).data
    assert next(read_examples(path, data)).targets["labels"] == ["a", "b"]


def test_what_cannot_be_read_is_an_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, [])
    with pytest.raises(DataError, match=r"a\.spacy: not a readable DocBin \(bad bytes\)"):
        next(read_docs(path))
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(DataError, match=r"pip install 'reglue\[spacy\]'"):
        next(read_docs(path))


def test_a_file_of_spacy_itself(tmp_path: Path) -> None:
    spacy: Any = pytest.importorskip("spacy", reason="spaCy is not installed")
    from spacy.tokens import DocBin

    blank, docs = spacy.blank("en"), DocBin(attrs=["ENT_IOB", "ENT_TYPE"])
    for item in PEOPLE:
        doc = blank(item.text)
        doc.ents = [doc.char_span(*span[:2], label=span.label_) for span in item.ents]
        doc.cats = {"travel": 1.0, "weather": 0.0}
        docs.add(doc)
    path = tmp_path / "a.spacy"
    docs.to_disk(path)
    assert [cells["entities"] for _, cells in read_docs(path)] == [
        [[*span] for span in doc.ents] for doc in PEOPLE
    ]
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(DataError, match="not a readable DocBin"):
        next(read_docs(path))
    docs = DocBin(store_user_data=True)
    doc = blank("Oslo")
    doc.ents, doc.cats = [doc.char_span(0, 4, label="GPE")], {"travel": 1.0, "weather": 0.0}
    docs.add(doc)
    docs.to_disk(path)
    ((_, found),) = read_docs(path)
    entities = [[0, 4, "GPE"]]
    assert found == {"text": "Oslo", "entities": entities, "label": "travel", "labels": ["travel"]}
