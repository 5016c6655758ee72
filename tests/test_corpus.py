"""A corpus: what is refused, what is held out, and how much of it is in memory at once."""

import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from nlp_core.config.dataset import HELD_OUT, TRAIN, CorpusConfig, CorpusHeldOutConfig
from nlp_core.data import corpus as module
from nlp_core.data.corpus import Corpus, is_held_out, read_corpus
from nlp_core.data.corpus import write_corpus as write_corpus_files
from nlp_core.data.masked_text import cut_text
from nlp_core.data.window import encode_documents, split_sentences
from nlp_core.data.word_piece import PieceSet, read_pieces
from nlp_core.errors import ConfigError, DataError
from tests.tiny import write_vectors
from tests.tiny_corpus import make_documents, process, write_corpus
from tests.tiny_encoder import make_tokenizer


def list_ids(folder: Path, split: str) -> list[str]:
    corpus = read_corpus(folder)
    shards = [corpus.read_shard(split, shard) for shard in range(corpus.count_shards(split))]
    return [document.id for shard in shards for document in shard]


@pytest.fixture
def pieces() -> PieceSet:
    return read_pieces(make_tokenizer().to_str(), "t")


def test_documents_go_to_one_part_by_their_id(tmp_path: Path) -> None:
    folder = write_corpus(tmp_path, make_documents(60))
    train, held_out = list_ids(folder, TRAIN), list_ids(folder, HELD_OUT)
    assert sorted([*train, *held_out], key=int) == [str(number) for number in range(60)]
    config = CorpusHeldOutConfig(share=0.2, seed=7)
    assert all(is_held_out(number, config) for number in held_out)
    assert not any(is_held_out(number, config) for number in train)
    # the same, whatever else is in the corpus
    other = write_corpus(tmp_path / "other", make_documents(30, seed=2))
    assert list_ids(other, HELD_OUT) == [number for number in held_out if int(number) < 30]
    share = np.mean([is_held_out(str(number), config) for number in range(4000)])
    assert share == pytest.approx(0.2, abs=0.02)  # three standard deviations


def test_manifest_counts_and_vouches(tmp_path: Path) -> None:
    folder = write_corpus(tmp_path, make_documents(20))
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["kind"] == "corpus"
    assert manifest["splits"][TRAIN]["rows"] + manifest["splits"][HELD_OUT]["rows"] == 20
    digest = read_corpus(folder).digest
    again = write_corpus(tmp_path / "again", make_documents(20))
    assert read_corpus(again).digest == digest
    other = write_corpus(tmp_path / "other", make_documents(20, seed=5))
    assert read_corpus(other).digest != digest


def test_documents_that_are_left_out_are_in_no_part(tmp_path: Path) -> None:
    folder = write_corpus(tmp_path, make_documents(20), left_out=["3", "7"])
    found = [*list_ids(folder, TRAIN), *list_ids(folder, HELD_OUT)]
    assert len(found) == 18
    assert not {"3", "7"} & set(found)
    with pytest.raises(DataError, match=r"found no document 99, which corpus\.left_out"):
        write_corpus(tmp_path / "x", make_documents(20), left_out=["99"])


def test_white_space_is_evened_and_empty_paragraphs_go(tmp_path: Path) -> None:
    texts = [" A  cat\nsat. ", "  ", "Two."]
    documents = [{"id": number, "paragraphs": texts} for number in range(9)]
    folder = write_corpus(tmp_path, documents)
    assert read_corpus(folder).read_shard(TRAIN, 0)[0].paragraphs == ["A cat sat.", "Two."]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"documents.jsonl: line 2: not valid JSON"),
        ('{"id": 1}', r'line 2: expected an object with "id" and "paragraphs"'),
        ('{"id": 1, "paragraphs": [1]}', r'line 2: expected a list of texts as "paragraphs"'),
    ],
)
def test_a_line_that_is_no_document_is_named(tmp_path: Path, line: str, message: str) -> None:
    text = json.dumps(make_documents(1)[0]) + "\n" + line + "\n"
    corpus = {"files": ["documents.jsonl"], "documents": 2, "held_out": {"share": 0.2, "seed": 1}}
    with pytest.raises(DataError, match=message):
        process(tmp_path, "c", {"documents.jsonl": text}, {"corpus": corpus})
    assert not (tmp_path / "data/processed/c").exists()


def test_another_number_of_documents_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="found 9 documents, expected the official 10"):
        write_corpus(tmp_path, make_documents(9), documents=10)
    with pytest.raises(DataError, match="found no documents for held_out; choose another"):
        write_corpus(tmp_path, make_documents(3), share=0.0001)


def test_what_is_no_corpus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="run `dvc repro preprocess@nothing`"):
        read_corpus(tmp_path / "nothing")
    with pytest.raises(ConfigError, match="found data of the kind vectors, expected a corpus"):
        read_corpus(write_vectors(tmp_path))


@pytest.mark.slow
def test_memory_does_not_grow_with_the_corpus(
    tmp_path: Path, pieces: PieceSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SHARD_BYTES", 1 << 14)
    peaks = []
    for count in (400, 3200):
        raw, folder = tmp_path / f"raw{count}", tmp_path / f"processed{count}"
        raw.mkdir()
        folder.mkdir()
        lines = "".join(json.dumps(document) + "\n" for document in make_documents(count))
        size = (raw / "d.jsonl").write_text(lines)
        del lines
        held_out = CorpusHeldOutConfig(share=0.1, seed=1)
        config = CorpusConfig(files=["d.jsonl"], documents=count, held_out=held_out)
        tracemalloc.start()
        manifest = write_corpus_files(config, raw, folder)
        written = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        documents = Corpus(folder, manifest).read_paragraphs(TRAIN)
        encoded = encode_documents(documents, pieces, tmp_path / f"pieces{count}")
        text = cut_text(TRAIN, encoded, pieces, length=128)
        for row in range(len(text)):
            text.batch([row])
        peaks.append((written, tracemalloc.get_traced_memory()[1]))
        tracemalloc.stop()
    (write_small, read_small), (write_large, read_large) = peaks
    assert size > 1_000_000
    # a megabyte more of text; what may grow is what parquet notes of each of its small shards
    assert write_large < write_small + 0.2 * size
    # of a window its five numbers stay in memory, of a sentence where it begins
    assert read_large < read_small + 0.2 * size


def test_files_hold_what_memory_would(tmp_path: Path, pieces: PieceSet) -> None:
    corpus = read_corpus(write_corpus(tmp_path, make_documents(20)))
    folder = tmp_path / "pieces"
    plain = encode_documents(corpus.read_paragraphs(TRAIN), pieces)
    written = encode_documents(corpus.read_paragraphs(TRAIN), pieces, folder)
    # the documents are not read again
    kept = encode_documents(iter(()), pieces, folder)
    for name, values in vars(plain).items():
        np.testing.assert_array_equal(getattr(written, name), values)
        np.testing.assert_array_equal(getattr(kept, name), values)
    assert len(plain.documents) == len(list_ids(corpus.folder, TRAIN)) + 1


def test_documents_too_short_for_any_window_are_refused(tmp_path: Path, pieces: PieceSet) -> None:
    for folder in (None, tmp_path / "pieces"):
        for documents in ([["film"]] * 9, []):
            encoded = encode_documents(documents, pieces, folder)
            with pytest.raises(DataError, match="found no window of 16 pieces in any document"):
                cut_text(TRAIN, encoded, pieces, length=16)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? four.", ["One.", "Two!", "Three? four."]),
        ('He said "No." Then he left.', ['He said "No."', "Then he left."]),
        ("Dr. No met J. R. Smith in the U.S. Army.", ["Dr. No met J. R. Smith in the U.S. Army."]),
        ("It cost 3.5 dollars. In 1900 it was 2.", ["It cost 3.5 dollars.", "In 1900 it was 2."]),
        ("  ", []),
    ],
)
def test_sentences_end_where_one_begins(text: str, expected: list[str]) -> None:
    assert split_sentences(text) == expected
