"""The tokenizer that is learnt on a corpus."""

import json
from pathlib import Path

import pytest

from nlp_core.cli import main
from nlp_core.data.corpus import read_corpus
from nlp_core.data.word_piece import learn_from_corpus, learn_word_pieces, read_pieces
from nlp_core.errors import ConfigError
from tests.tiny_corpus import make_documents, write_corpus
from tests.tiny_encoder import make_tokenizer


def test_vocabulary_by_hand() -> None:
    texts = ["Hug hug hug hug, pug pug, PUN pun pun pun bun"]
    tokenizer = learn_word_pieces(lambda: texts, vocab_size=128, lowercase=True, where="t")
    pieces = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    assert pieces[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = [",", "b", "g", "h", "n", "p", "u"]
    assert pieces[5:12] == letters
    assert pieces[12:19] == ["##" + letter for letter in letters]
    # pairs by count: ##u ##g (6, as p ##u) and ##u ##n (5), then h ##ug and p ##un (4) ...
    assert set(pieces[19:]) == {"##ug", "##un", "hug", "pun", "pug", "bun"}
    assert pieces.index("##ug") < pieces.index("##un") < pieces.index("bun")
    assert tokenizer.encode("Hugs PUN").tokens == ["[UNK]", "pun"]
    assert tokenizer.encode("gun hun").tokens == ["g", "##un", "h", "##un"]


def test_rarest_letters_are_unknown() -> None:
    texts = ["ab ba " * 5000, "z"]
    tokenizer = learn_word_pieces(lambda: texts, vocab_size=64, lowercase=True, where="t")
    assert tokenizer.encode("ab z").tokens == ["ab", "[UNK]"]


def test_capitals_are_kept_where_they_are_to_be() -> None:
    tokenizer = learn_word_pieces(
        lambda: ["Pun pun pun Pun"], vocab_size=64, lowercase=False, where="t"
    )
    assert tokenizer.encode("Pun pun").tokens == ["Pun", "pun"]


def test_learnt_tokenizer_is_the_same_again_and_frames_texts(tmp_path: Path) -> None:
    corpus = read_corpus(write_corpus(tmp_path, make_documents(120)))
    learnt = [
        learn_from_corpus(corpus, vocab_size=120, lowercase=True, seed=1, where="t")
        for _ in range(2)
    ]
    assert learnt[0] == learnt[1]
    pieces = read_pieces(learnt[0], "t")
    found = pieces.tokenizer.encode("Cat dog.", "Ant")
    assert found.tokens == ["[CLS]", "cat", "dog", ".", "[SEP]", "ant", "[SEP]"]
    assert found.type_ids == [0, 0, 0, 0, 0, 1, 1]
    assert pieces.ordinary.tolist() == list(range(5, pieces.tokenizer.get_vocab_size()))


def test_the_command_learns_a_tokenizer_from_files(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "a.txt").write_text("the cat sat\n" * 50)
    (place / "b.txt").write_text("The hat sat\n" * 50)
    command = ["pieces", "--texts", "a.txt", "b.txt", "--vocab-size", "40", "-o", "t.json"]
    main([*command, "--json"])
    found = read_pieces((place / "t.json").read_text(), "t").tokenizer
    assert json.loads(capsys.readouterr().out)["pieces"] == found.get_vocab_size() <= 40
    assert found.encode("The Cat sat").tokens == ["[CLS]", "the", "cat", "sat", "[SEP]"]
    main([*command, "--cased", "--force"])
    cased = read_pieces((place / "t.json").read_text(), "t").tokenizer
    assert cased.encode("The cat").tokens == ["[CLS]", "The", "cat", "[SEP]"]
    capsys.readouterr()
    for change, message in (
        ([], "use --force"),
        (["--texts", "gone.txt"], "no such file"),
        (["--vocab-size", f"{10**30}"], "expected at most 10000000"),
    ):
        with pytest.raises(SystemExit):
            main([*command, *change, *(["--force"] if change else [])])
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("size", [16, 30])
def test_room_for_letters_alone_is_too_little(size: int) -> None:
    letters = " ".join("abcdefghijklmnopqrstuvwxyz")
    with pytest.raises(
        ConfigError, match=rf"tokenizer\.vocab_size: found {size}, expected more than"
    ):
        learn_word_pieces(lambda: [letters] * 3, vocab_size=size, lowercase=True, where="tokenizer")


def test_a_tokenizer_without_a_mask_is_refused() -> None:
    state = json.loads(make_tokenizer().to_str())
    del state["model"]["vocab"]["[MASK]"]
    with pytest.raises(ConfigError, match=r"found no piece \[MASK\] or <mask>"):
        read_pieces(json.dumps(state), "minilm")
