from pathlib import Path

import numpy as np
import pytest

from nlp_core.data.vocabulary import (
    UNKNOWN,
    CharacterVocabulary,
    WordRules,
    WordVocabulary,
)
from nlp_core.data.word_vectors import WordVectors, read_table
from nlp_core.errors import DataError
from tests.tiny import write_vectors

TABLE = WordVectors(np.eye(4, dtype=np.float32), {"film": 0, "eu": 1, "1996": 2, "unseen": 3})


def test_frequent_words_come_first_and_ties_by_code_point() -> None:
    vocabulary = WordVocabulary.build(["b", "a", "c", "c"], WordRules(), None)
    assert vocabulary.words == ["<pad>", "<unk>", "c", "a", "b"]


def test_unseen_word_with_a_vector_reads_the_vector_and_without_one_is_unknown() -> None:
    vocabulary = WordVocabulary.build(["film"], WordRules(), TABLE)
    assert vocabulary.encode(["film", "unseen", "nowhere"]).tolist() == [2, len(vocabulary) + 3, 1]


def test_cased_word_keeps_its_row_and_starts_from_its_lower_case_vector() -> None:
    vocabulary = WordVocabulary.build(["EU", "eu"], WordRules(), TABLE)
    assert vocabulary.words[2:] == ["EU", "eu"]
    assert vocabulary.rows().tolist() == [-1, -1, 1, 1]


def test_digits_are_folded_only_where_no_vector_is_known() -> None:
    vocabulary = WordVocabulary.build(["1996", "1997"], WordRules(digits_to_zero=True), TABLE)
    assert sorted(vocabulary.words[2:]) == ["0000", "1996"]
    assert vocabulary.encode(["1234"]).tolist() == vocabulary.encode(["1997"]).tolist()


def test_min_count_drops_rare_words_without_a_vector() -> None:
    vocabulary = WordVocabulary.build(["film", "odd", "two", "two"], WordRules(min_count=2), TABLE)
    assert vocabulary.words[2:] == ["two", "film"]
    assert vocabulary.encode(["odd"]).tolist() == [UNKNOWN]


def test_rare_words_are_those_seen_once_without_a_vector() -> None:
    vocabulary = WordVocabulary.build(["film", "odd", "two", "two"], WordRules(), TABLE)
    assert [w for w, rare in zip(vocabulary.words, vocabulary.rare(), strict=True) if rare] == [
        "odd"
    ]


def test_characters_are_padded_and_unknown_ones_share_an_id() -> None:
    vocabulary = CharacterVocabulary.build(["ab", "c"])
    assert vocabulary.encode(["ca", "z"]).tolist() == [[4, 2], [1, 0]]


def test_missing_table_names_the_nearest(tmp_path: Path) -> None:
    folder = write_vectors(tmp_path)
    with pytest.raises(DataError, match=r"no vector table '8dd'. Did you mean '8d'"):
        read_table(folder, "8dd", 8)
    with pytest.raises(DataError, match="found vectors of width 8, expected 300"):
        read_table(folder, "8d", 300)
