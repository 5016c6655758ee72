"""Texts tokenized by several processes: the same tokens, the same bytes."""

from copy import deepcopy
from pathlib import Path

import pytest

from nlp_core.data import token_pool
from nlp_core.data.preprocess import preprocess_source
from nlp_core.data.readers.example import Example
from nlp_core.data.token_pool import prepare_tokenizer, tokenize_all
from nlp_core.data.tokenization import TOKENIZERS
from tests.tiny_source import FILES, TASK, build, put


def test_one_process_tokenizes_when_it_is_asked() -> None:
    rows = [Example(1, "a b", None, "0")]
    assert prepare_tokenizer("spaces", rows, 1) is TOKENIZERS.get("spaces")
    assert prepare_tokenizer("spaces", rows, 4) is TOKENIZERS.get("spaces")


def test_a_chunk_has_the_tokens_of_each_text() -> None:
    assert tokenize_all("nfkc+words", ["isn't", ""]) == [["is", "n't"], ["<empty>"]]


@pytest.mark.slow
def test_several_processes_write_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_pool, "TEXTS_A_CHUNK", 3)
    task = deepcopy(TASK) | {"tokens": "words"}
    for processes in (1, 2):
        folder = tmp_path / str(processes)
        put(folder, FILES)
        dataset = build({"task": task}, sorted(FILES))
        preprocess_source("d", dataset, folder, processes=processes)
    for path in sorted((tmp_path / "1/processed/d").iterdir()):
        assert path.read_bytes() == (tmp_path / "2/processed/d" / path.name).read_bytes()
