"""Pieces of words: learnt the same each time, kept with the model, read for unseen words."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nlp_core.blocks.character import SubwordEmbedding
from nlp_core.data.split_column import TextColumn
from nlp_core.data.vocabulary import SubwordVocabulary
from nlp_core.files import format_json
from reglue_runtime.text import WORD_START
from tests.tiny_features import TEXT, make_cell, preprocess, root, train

__all__ = ["root"]
WORDS = ["low"] * 5 + ["lower"] * 2 + ["newest"] * 6 + ["widest"] * 3
NOWHERE = Path("nowhere")


def learn(words: list[str], **options: object) -> SubwordVocabulary:
    column = TextColumn.build(words, np.array([0, len(words)]))
    return SubwordVocabulary.learn([column], options, NOWHERE)


def spell(vocabulary: SubwordVocabulary, word: str) -> list[str]:
    names = json.loads(vocabulary.tokenizer)["model"]["vocab"]
    names = {number: name for name, number in names.items()}
    return [names[piece] for piece in vocabulary.encode([word])[0]]


def test_pieces_by_hand() -> None:
    # 2 special ones, 11 characters; the most frequent pairs are e s (9) and then es t (9)
    vocabulary = learn(WORDS, num_pieces=15)
    assert len(vocabulary) == 15
    assert spell(vocabulary, "west") == [WORD_START, "w", "est"]
    assert spell(vocabulary, "low") == [WORD_START, "l", "o", "w"]


def test_unknown_characters_and_special_words() -> None:
    vocabulary = learn(WORDS)
    assert spell(vocabulary, "lowzy")[-2:] == ["<unk>", "<unk>"]
    assert 0 not in vocabulary.encode(["<pad>"])[0]
    assert spell(learn(WORDS, lowercase=True), "LOW") == [f"{WORD_START}low"]


def test_pieces_are_the_same_in_another_process() -> None:
    generator = np.random.default_rng(1)
    letters = list("abcdefgh")
    words = ["".join(generator.choice(letters, size=6)) for _ in range(300)]
    program = (
        "import sys, json, numpy as np;"
        "from nlp_core.data.vocabulary import SubwordVocabulary as S;"
        "from nlp_core.data.split_column import TextColumn as C; w = json.loads(sys.argv[1]);"
        "print(S.learn([C.build(w, np.array([0, len(w)]))], {'num_pieces': 200}, None).tokenizer)"
    )
    arguments = [sys.executable, "-c", program, json.dumps(words)]
    found = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout
    assert found.strip() == learn(words, num_pieces=200).tokenizer


def test_stored_pieces_are_the_learnt_ones() -> None:
    vocabulary = learn(WORDS, num_pieces=20)
    note = json.loads(format_json(vocabulary.describe()))
    restored = SubwordVocabulary.from_note(note, {}, NOWHERE)
    words = [*WORDS, "slow", "x"]
    assert restored.encode(words) == vocabulary.encode(words)
    assert len(restored) == len(vocabulary)


@pytest.mark.parametrize("pool", ["mean", "sum", "max"])
def test_a_word_is_the_pool_of_its_pieces(pool: Any) -> None:
    block = SubwordEmbedding(6, dim=3, pool=pool)
    ids = torch.tensor([[2, 3, 4], [5, 0, 0]])
    output = block(ids, torch.tensor([[1, 0]]), torch.tensor([[True, True]]))
    pieces = block.table.weight[torch.tensor([2, 3, 4])]
    expected = {"mean": pieces.mean(0), "sum": pieces.sum(0), "max": pieces.amax(0)}[pool]
    torch.testing.assert_close(output[0], torch.stack([block.table.weight[5], expected]))


def test_a_model_reads_unseen_words_by_their_pieces(root: Path) -> None:
    def write(size: int, seed: int, stems: list[str]) -> str:
        generator = np.random.default_rng(seed)
        rows = ["text\tlabel"]
        for _ in range(size):
            label = int(generator.integers(2))
            stem = str(generator.choice(stems))
            rows.append(f"a {stem}{'ful' if label else 'less'}\t{'yes' if label else 'no'}")
        return "\n".join(rows) + "\n"

    seen, unseen = ["hope", "care", "use", "harm"], ["fear", "cause", "hum"]
    preprocess(root, TEXT, {"train.tsv": write(60, 1, seen), "test.tsv": write(30, 2, unseen)})
    graph = {
        "inputs": {"chars": "tokens.characters"},
        "layers": [
            {"name": "piece", "block": "subword_embedding", "inputs": ["chars"], "dim": 8},
            {"name": "whole", "block": "pooling", "inputs": ["piece"]},
        ],
        "heads": {"label": {"head": "classification", "inputs": ["whole"]}},
    }
    graph["layers"][0]["num_pieces"] = 30  # type: ignore[index]
    assert train(make_cell(root, graph))["accuracy"] > 90
    note = json.loads((root / "artifacts/cells/sample/tiny/seed-1/vocabulary.json").read_text())
    assert len(note["layers"]["piece"]["tokenizer"]["model"]["vocab"]) <= 30
