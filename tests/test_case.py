"""The case of a word, as a symbol of a vocabulary and in a bundle."""

from pathlib import Path

import numpy as np
import pytest

from nlp_core.data.case import CaseVocabulary
from nlp_core.data.split_column import TextColumn
from nlp_core.export.inputs import list_forms
from reglue_runtime.text import CASES, FORMS, name_case


@pytest.mark.parametrize(
    ("word", "case"),
    [
        ("word", "lower"),
        ("n't", "lower"),
        ("\u6771\u4eac", "lower"),
        ("Word", "capitalised"),
        ("I", "capitalised"),
        ("O'brien", "capitalised"),
        ("U.S.", "upper"),
        ("McDonald", "mixed"),
        ("iPhone", "mixed"),
        ("1,000.5", "digits"),
        ("F16", "with_digits"),
        ("16th", "with_digits"),
        ("...", "other"),
        ("", ""),
    ],
)
def test_a_word_has_one_case(word: str, case: str) -> None:
    assert name_case(word) == case


def test_ids_are_those_of_the_cases_and_nothing_is_learned() -> None:
    vocabulary = CaseVocabulary.learn([], {"dim": 5}, Path())
    words = ["Word", "word", "<unk>", "U.S."]
    column = TextColumn.build(words, np.array([0, 4]))
    (ids,) = vocabulary.read(column).take(np.array([0]))
    names = [vocabulary.words[number] for number in ids[0]]
    assert names == ["capitalised", "lower", "<unk>", "upper"]
    assert len(vocabulary) == len(CASES) + 2
    again = CaseVocabulary.from_note(vocabulary.describe(), {"dim": 5}, Path())
    assert again.words == vocabulary.words


def test_a_bundle_looks_up_the_same_symbol() -> None:
    vocabulary = CaseVocabulary.learn([], {"dim": 5}, Path())
    (form,) = list_forms(vocabulary)
    for word in ("Word", "word", "F16", "..."):
        symbol = FORMS[form.name](word)
        assert vocabulary.ids[symbol] == vocabulary.encode([word])[0]
