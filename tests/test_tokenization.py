import pytest

from nlp_core.data.tokenization import EMPTY_TOKEN, TOKENIZERS, split_spaces, split_words
from nlp_core.errors import ConfigError


def test_spaces_keep_case_and_drop_nothing_else() -> None:
    assert split_spaces("It 's  A  test . ") == ["It", "'s", "A", "test", "."]


def test_words_follow_the_treebank() -> None:
    expected = ["``", "It", "is", "n't", "over", ",", "''", "he", "said", "."]
    assert split_words('"It isn\'t over," he said.') == expected


@pytest.mark.parametrize("name", TOKENIZERS.names())
@pytest.mark.parametrize("text", ["", " "])
def test_every_text_has_a_token(name: str, text: str) -> None:
    assert TOKENIZERS.get(name)(text) == [EMPTY_TOKEN]


def test_unknown_tokenizer_is_named_with_its_neighbour() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'spaces'"):
        TOKENIZERS.get("space")
