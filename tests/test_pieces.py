"""How texts become the pieces of an encoder's tokenizer."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from nlp_core.data.pieces import PieceVocabulary
from nlp_core.data.split_column import RawText, TextColumn, WordText
from nlp_core.errors import ConfigError, DataError
from tests.tiny_encoder import PIECES, TINY_ENCODER, make_byte_tokenizer, make_tokenizer

CLS, SEP = PIECES.index("[CLS]"), PIECES.index("[SEP]")
GOOD, BAD, FILM, THE, S, A = (PIECES.index(item) for item in PIECES[5:11])


def make_vocabulary(max_length: int = 16, stride: int = 4) -> PieceVocabulary:
    return PieceVocabulary(make_tokenizer().to_str(), TINY_ENCODER, max_length, stride, None)


def make_words(*rows: list[str]) -> TextColumn:
    return TextColumn.join(rows)


def test_texts_are_framed_and_padded() -> None:
    found = make_vocabulary().read(RawText(["good films", "the"], None))
    ids, segments, inside, places = found.take(np.array([1, 0]))
    assert ids.tolist() == [[CLS, THE, SEP, 0, 0], [CLS, GOOD, FILM, S, SEP]]
    assert segments.any() == np.False_
    assert inside.sum(1).tolist() == found.outline().lengths[[1, 0]].tolist() == [3, 5]
    assert places.tolist() == [[0, 1, 2, 0, 0], [5, 6, 7, 8, 9]]


def test_two_texts_are_one_window_with_segments() -> None:
    found = make_vocabulary().read(RawText(["good"], ["bad film"]))
    ids, segments, _, _ = found.take(np.array([0]))
    assert ids.tolist() == [[CLS, GOOD, SEP, BAD, FILM, SEP]]
    assert segments.tolist() == [[0, 0, 0, 1, 1, 1]]


def test_the_longer_text_is_cut_first() -> None:
    found = make_vocabulary(max_length=8).read(RawText(["good good"], ["bad " * 9]))
    ids, _, _, _ = found.take(np.array([0]))
    assert ids.tolist() == [[CLS, GOOD, GOOD, SEP, BAD, BAD, BAD, SEP]]


def test_each_word_is_at_its_first_piece() -> None:
    words = make_words(["the", "films", "bad"], ["good"])
    ids, _, _, places = make_vocabulary().read(WordText(words, None)).take(np.array([0, 1]))
    assert ids.ravel()[places[0]].tolist() == [THE, FILM, BAD]
    assert ids.ravel()[places[1, 0]] == GOOD


def test_words_of_a_byte_level_tokenizer_begin_with_a_space() -> None:
    tokenizer = make_byte_tokenizer()
    vocabulary = PieceVocabulary(tokenizer.to_str(), TINY_ENCODER, 16, 4, None)
    words = WordText(make_words(["good", "film"]), make_words(["bad", "film"]))
    ids, _, _, places = vocabulary.read(words).take(np.array([0]))
    pieces = [tokenizer.id_to_token(number) for number in ids[0]]
    assert pieces == ["<s>", "Ġbad", "Ġfilm", "</s>", "</s>", "Ġgood", "Ġfilm", "</s>"]
    assert places.tolist() == [[5, 6]]
    ids, *_ = vocabulary.read(RawText(["bad film"], None)).take(np.array([0]))
    whole = [tokenizer.id_to_token(number) for number in ids[0]]
    assert whole == tokenizer.encode("bad film").tokens
    assert "Ġbad" not in whole


def test_a_word_without_pieces_is_read_at_the_first_place() -> None:
    words = make_words(["the", "\u200b\x01", "bad"])
    ids, _, _, places = make_vocabulary().read(WordText(words, None)).take(np.array([0]))
    assert ids.ravel()[places[0]].tolist() == [THE, CLS, BAD]


@pytest.mark.parametrize("context", [False, True])
def test_long_texts_are_read_in_windows_that_show_what_is_around(context: bool) -> None:
    rows = [["the", "good", "bad", "film", "a"] * 8, ["bad"]]
    before = make_words(["the", "good"], ["a", "a"]) if context else None
    vocabulary = make_vocabulary(max_length=16, stride=6)
    found = vocabulary.read(WordText(make_words(*rows), before))
    assert found.outline().lengths.tolist() == [40, 1]
    ids, segments, inside, places = found.take(np.array([1, 0]))
    assert len(ids) > 4
    for row, place in zip(rows[::-1], places, strict=True):
        pieces = ids.ravel()[place[: len(row)]]
        assert [PIECES[piece] for piece in pieces] == row
        assert inside.ravel()[place[: len(row)]].all()
        assert (segments.ravel()[place[: len(row)]] == int(context)).all()
    position = places[1] % ids.shape[1]
    # but for both ends of the text, each place has some of it on both sides
    assert position[5:-5].min() >= 3
    assert (ids.shape[1] - 1 - position[5:-5]).min() >= 3


def test_a_batch_holds_the_windows_of_its_own_rows_alone() -> None:
    rows = [["good"] * 30, ["bad"], ["film"] * 20]
    found = make_vocabulary().read(WordText(make_words(*rows), None))
    together = found.take(np.array([0, 1, 2]))
    alone = found.take(np.array([2]))
    assert len(alone[0]) < len(together[0])
    assert (alone[0].ravel()[alone[3]] == FILM).all()
    assert (together[0].ravel()[together[3][2, :20]] == FILM).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_length": 17}, "max_length: found 17, expected at most 16"),
        (
            {"max_length": 8, "stride": 4},
            "stride: found 4, expected less than half of max_length 8",
        ),
    ],
)
def test_options_that_do_not_fit_the_encoder(options: Mapping[str, int], message: str) -> None:
    note = {"tokenizer": json.loads(make_tokenizer().to_str()), "config": TINY_ENCODER}
    with pytest.raises(ConfigError, match=message):
        PieceVocabulary.from_note(note, options, Path())


def test_positions_begin_behind_padding_in_some_encoders() -> None:
    config = {**TINY_ENCODER, "model_type": "roberta", "pad_token_id": 1}
    note = {"tokenizer": json.loads(make_tokenizer().to_str()), "config": config}
    with pytest.raises(ConfigError, match="expected at most 14"):
        PieceVocabulary.from_note(note, {"max_length": 16}, Path())


def test_a_folder_without_an_encoder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"found no tokenizer.json.*expected a pretrained encoder"):
        PieceVocabulary.learn([], {}, tmp_path)


@pytest.mark.parametrize(
    "content",
    ["{", "[]", "{}", '{"model_type": "bert", "max_position_embeddings": "x"}'],
)
def test_a_broken_configuration_is_named(tmp_path: Path, content: str) -> None:
    for name in ("tokenizer.json", "model.safetensors"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(DataError, match=r"config.json: found no configuration of an encoder"):
        PieceVocabulary.learn([], {}, tmp_path)


def test_what_is_stored_restores_the_vocabulary() -> None:
    vocabulary = make_vocabulary()
    options = {"max_length": 16, "stride": 4}
    other = PieceVocabulary.from_note(vocabulary.describe(), options, Path())
    column = RawText(["good films"], None)
    assert other.read(column).ids.values.tolist() == vocabulary.read(column).ids.values.tolist()
    assert len(other) == len(PIECES)
