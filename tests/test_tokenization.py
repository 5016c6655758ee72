import subprocess
import sys
from importlib.util import find_spec

import pytest

from nlp_core.data.tokenization import LOCATORS, TOKENIZERS, split_words
from nlp_core.errors import ConfigError
from reglue_runtime.text import EMPTY_TOKEN, split_plain_words, split_spaces


def test_spaces_keep_case_and_drop_nothing_else() -> None:
    assert split_spaces("It 's  A  test . ") == ["It", "'s", "A", "test", "."]


def test_words_follow_the_treebank() -> None:
    expected = ["``", "It", "is", "n't", "over", ",", "''", "he", "said", "."]
    assert split_words('"It isn\'t over," he said.') == expected


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ('"It isn\'t over." He', ['"', "It", "is", "n't", "over", ".", '"', "He"]),
        ("Luther\u2019s 16th-century_b", ["Luther", "\u2019s", "16th", "-", "century", "_", "b"]),
        ("U.S. dog. $1,000.50 5%", ["U.S.", "dog", ".", "$", "1,000.50", "5", "%"]),
        ("1958\u20131960 (\u00e9t\u00e9)", ["1958", "\u2013", "1960", "(", "\u00e9t\u00e9", ")"]),
        ("I don\u2019t, we'll", ["I", "do", "n\u2019t", ",", "we", "'ll"]),
    ],
)
def test_plain_words_cut_at_every_sign(text: str, tokens: list[str]) -> None:
    assert split_plain_words(text) == tokens


def list_installed(names: list[str]) -> list[str]:
    """Return the tokenizers whose libraries are there."""
    needed = {"chinese_words": "jieba", "japanese_words": "fugashi"}
    return [name for name in names if find_spec(needed.get(name, "re")) is not None]


@pytest.mark.parametrize("name", list_installed(LOCATORS.names()))
def test_located_tokens_are_those_of_the_tokenizer(name: str) -> None:
    text = " \u00c9t\u00e9  isn't \U0001f600 over,\tnot yet. "
    places = LOCATORS.get(name)(text)
    assert [text[place.start : place.end] for place in places] == TOKENIZERS.get(name)(text)
    assert LOCATORS.get(name)(" ") == []


@pytest.mark.parametrize("name", list_installed(TOKENIZERS.names()))
@pytest.mark.parametrize("text", ["", " "])
def test_every_text_has_a_token(name: str, text: str) -> None:
    assert TOKENIZERS.get(name)(text) == [EMPTY_TOKEN]


def test_unknown_tokenizer_is_named_with_its_neighbour() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'spaces'"):
        TOKENIZERS.get("space")


def test_the_tokenizer_of_words_loads_a_part_of_nltk_and_leaves_it_whole() -> None:
    code = """
import sys
from nlp_core.data.tokenization import TOKENIZERS
found = TOKENIZERS.get("words")("I can't, e.g. at 5.")
assert not {"nltk", "scipy", "sklearn"} & set(sys.modules)
from nltk import word_tokenize
assert found == word_tokenize("I can't, e.g. at 5.", preserve_line=True)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
