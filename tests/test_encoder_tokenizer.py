"""Tokenizers of the user's encoders in other forms than tokenizer.json."""

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from nlp_core.encoders.folder import find_encoder
from nlp_core.errors import DataError
from tests.tiny_encoder import PIECES, make_byte_tokenizer, write_encoder

TEXTS = ["a good film , the bad", "Good films"]


@pytest.fixture
def encoder(place: Path) -> Path:
    """An encoder's files without a tokenizer."""
    folder = place / "encoder"
    shutil.copytree(write_encoder(place), folder)
    (folder / "tokenizer.json").unlink()
    (folder / "manifest.json").unlink()
    return folder


def set_type(folder: Path, model_type: str) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": model_type}))


def read(folder: Path) -> Tokenizer:
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def test_merges_give_the_pieces_of_the_tokenizer_they_are_from(encoder: Path) -> None:
    own = make_byte_tokenizer()
    own.model.save(str(encoder))
    set_type(encoder, "roberta")
    found = find_encoder(str(encoder))
    assert found != encoder
    for text in TEXTS:
        assert read(found).encode(text).ids == own.encode(text).ids
    for name in ("config.json", "model.safetensors"):
        assert (found / name).read_bytes() == (encoder / name).read_bytes()
    assert find_encoder(str(encoder)) == found


def test_word_pieces_are_read_too(encoder: Path) -> None:
    (encoder / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    found = read(find_encoder(str(encoder)))
    assert found.encode(TEXTS[0]).tokens[:4] == ["[CLS]", "a", "good", "film"]


def test_word_pieces_of_a_name_on_the_hub_are_read_too(
    encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (encoder / "vocab.txt").write_text("\n".join(PIECES) + "\n")

    def fetch(name: str, allow_patterns: list[str]) -> str:
        assert name == "owner/name"
        for path in encoder.iterdir():
            if path.name not in allow_patterns:
                path.unlink()
        return str(encoder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)
    found = read(find_encoder("owner/name"))
    assert found.encode(TEXTS[0]).tokens[:4] == ["[CLS]", "a", "good", "film"]


def test_another_vocabulary_is_another_folder(encoder: Path) -> None:
    (encoder / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    first = find_encoder(str(encoder))
    (encoder / "vocab.txt").write_text("\n".join([*PIECES, "new"]) + "\n")
    assert find_encoder(str(encoder)) != first


def test_a_file_that_is_no_tokenizer_is_an_error(encoder: Path) -> None:
    (encoder / "sentencepiece.bpe.model").write_bytes(b"no model")
    set_type(encoder, "xlm-roberta")
    with pytest.raises(DataError, match=r"bpe\.model: .* does not read it .*reglue\[sentencepiece"):
        find_encoder(str(encoder))


@pytest.mark.skipif(find_spec("sentencepiece") is None, reason="sentencepiece is not installed")
def test_a_sentencepiece_model_gives_its_pieces(encoder: Path) -> None:
    import sentencepiece

    (encoder.parent / "texts").write_text("\n".join([*TEXTS] * 20))
    sentencepiece.SentencePieceTrainer.train(
        input=str(encoder.parent / "texts"),
        model_prefix=str(encoder / "sentencepiece.bpe"),
        vocab_size=20,
        minloglevel=2,
    )
    set_type(encoder, "xlm-roberta")
    found = read(find_encoder(str(encoder)))
    own = sentencepiece.SentencePieceProcessor(model_file=str(encoder / "sentencepiece.bpe.model"))
    for text in TEXTS:
        assert found.encode(text).tokens[1:-1] == own.encode(text, out_type=str)
