"""Windows of documents: the pieces, the words, and pairs of segments that are what they say."""

from collections.abc import Sequence

import numpy as np
import pytest

from nlp_core.data.window import (
    FIXED,
    EncodedDocuments,
    Pairs,
    Window,
    build_batch,
    cut_windows,
    encode_documents,
    pair_windows,
)
from nlp_core.data.word_piece import PieceSet, read_pieces
from nlp_core.errors import DataError
from tests.tiny_encoder import PIECES, make_byte_tokenizer, make_tokenizer


@pytest.fixture(scope="module")
def pieces() -> PieceSet:
    return read_pieces(make_tokenizer().to_str(), "t")


def make_documents(count: int, sentences: int) -> EncodedDocuments:
    """Return documents whose pieces are numbers of their own: document, sentence, piece."""
    sizes = np.tile([3, 5, 2, 7], count * sentences)[: count * sentences]
    ids = np.arange(sizes.sum(), dtype=np.int32)
    borders = np.cumsum([0, *sizes])
    return EncodedDocuments(ids, ids, borders, np.arange(0, count * sentences + 1, sentences))


def count_pieces(window: Window) -> int:
    """Return the pieces of both segments, without the special ones."""
    return window.first[1] - window.first[0] + window.second[1] - window.second[0]


def draw(
    pairs: Pairs, encoded: EncodedDocuments, length: int = 24, **changes: float
) -> list[Window]:
    generator = np.random.default_rng(1)
    short = changes.get("short_prob", 0.0)
    return list(pair_windows(encoded, length, generator, short_prob=short, pairs=pairs))


def find_document(encoded: EncodedDocuments, place: int) -> int:
    return int(np.searchsorted(encoded.sentences[encoded.documents], place, "right")) - 1


def test_documents_become_sentences_and_pieces(pieces: PieceSet) -> None:
    encoded = encode_documents([["A good film. The films."], [], ["Bad zebra!"]], pieces)
    # "films" is two pieces of one word; "zebra", "." and "!" are unknown
    expected = ["a", "good", "film", "[UNK]", "the", "film", "##s", "[UNK]", "bad"]
    expected += ["[UNK]", "[UNK]"]
    assert [PIECES[number] for number in encoded.ids] == expected
    assert encoded.words.tolist() == [0, 1, 2, FIXED, 0, 1, 1, FIXED, 0, FIXED, FIXED]
    assert encoded.sentences.tolist() == [0, 4, 8, 11]
    assert encoded.documents.tolist() == [0, 2, 3]


def test_sentences_of_a_byte_level_tokenizer_begin_with_a_space() -> None:
    tokenizer = make_byte_tokenizer()
    encoded = encode_documents(
        [["the bad film . Good films"]], read_pieces(tokenizer.to_str(), "t")
    )
    found = [tokenizer.id_to_token(number) for number in encoded.ids]
    assert found == ["Ġthe", "Ġbad", "Ġfilm", "Ġ.", "ĠGood", "Ġfilms"]
    assert len(encoded.sentences) == 3


def test_windows_of_one_segment_hold_every_piece_once() -> None:
    encoded = make_documents(5, 9)
    windows = list(cut_windows(encoded, 12, np.random.default_rng(1), short_prob=0.0))
    covered = np.concatenate([np.arange(*window.first) for window in windows])
    # a last single piece of a document has no second piece and is left out
    assert len(np.unique(covered)) == len(covered) >= len(encoded.ids) - 5
    for window in windows:
        assert 2 <= count_pieces(window) <= 10
        assert find_document(encoded, window.first[0]) == find_document(
            encoded, window.first[1] - 1
        )


def test_short_windows_come_as_often_as_asked() -> None:
    encoded = make_documents(4, 4000)
    windows = list(cut_windows(encoded, 102, np.random.default_rng(1), short_prob=0.3))
    share = np.mean([count_pieces(window) < 100 for window in windows])
    # of those one in 99 is drawn at full length; three standard deviations of the share
    assert share == pytest.approx(0.3, abs=0.06)


def test_next_sentences_follow_and_others_are_of_other_documents() -> None:
    encoded = make_documents(30, 40)
    windows = draw("next_sentence", encoded)
    for window in windows:
        assert 2 <= count_pieces(window) <= 21
        assert window.second[0] < window.second[1]
        first, second = (find_document(encoded, s[0]) for s in (window.first, window.second))
        assert (first == second) == bool(window.answer)
        if window.answer:
            # cut ends aside, one sentence stands behind the other
            assert window.first[1] <= window.second[0] <= window.first[1] + 21
    share = np.mean([window.answer for window in windows])
    assert 0.4 < share < 0.55


def test_sentences_in_order_and_the_wrong_way_round() -> None:
    encoded = make_documents(30, 40)
    windows = draw("sentence_order", encoded)
    for window in windows:
        assert find_document(encoded, window.first[0]) == find_document(encoded, window.second[0])
        assert (window.first[0] < window.second[0]) == bool(window.answer)
        low, high = sorted([window.first, window.second])
        assert low[1] <= high[0]
    share = np.mean([window.answer for window in windows])
    assert share == pytest.approx(0.5, abs=3 * 0.5 / len(windows) ** 0.5)


def test_a_single_sentence_has_no_order_and_no_next() -> None:
    encoded = make_documents(6, 1)
    assert draw("sentence_order", encoded) == []
    assert {window.answer for window in draw("next_sentence", encoded)} == {0}
    with pytest.raises(DataError, match="found 1 documents of text together"):
        draw("next_sentence", make_documents(1, 9))


def test_segments_share_what_room_there_is() -> None:
    encoded = make_documents(2, 40)
    huge = EncodedDocuments(
        encoded.ids, encoded.words, encoded.sentences[::20], np.array([0, 2, 4])
    )
    windows = draw("next_sentence", huge, length=23)
    assert windows
    for window in windows:
        assert count_pieces(window) == 20
        assert window.first[1] - window.first[0] == 10


def test_batch_by_hand(pieces: PieceSet) -> None:
    encoded = encode_documents([["The films. A film is bad."], ["Good films."]], pieces)
    windows = [Window((0, 4), (9, 12), 0), Window((2, 6), (6, 6), 1)]
    batch = build_batch(encoded, windows, pieces)
    rows = [[PIECES[number] for number in row] for row in batch.ids]
    first = "[CLS] the film ##s [UNK] [SEP] good film ##s [SEP]"
    assert rows[0] == first.split()
    assert rows[1] == ["[CLS]", "##s", "[UNK]", "a", "film", "[SEP]"] + ["[PAD]"] * 4
    assert batch.segments.tolist() == [[0] * 6 + [1] * 4, [0] * 10]
    assert batch.inside.sum(axis=1).tolist() == [10, 6]
    assert batch.answers.tolist() == [0, 1]
    f = FIXED
    assert batch.words[0].tolist() == [f, 0, 1, 1, f, f, 2, 3, 3, f]
    # words of two sentences are distinguished though each counts from 0
    assert batch.words[1].tolist() == [f, 0, f, 1, 2, f, f, f, f, f]


@pytest.mark.parametrize("texts", [["film", "film"], ["The film", "film The"]])
def test_the_same_number_in_two_sentences_is_not_one_word(
    pieces: PieceSet, texts: Sequence[str]
) -> None:
    encoded = encode_documents([texts], pieces)
    size = len(encoded.ids)
    words = build_batch(encoded, [Window((0, size), (size, size), 0)], pieces).words[0]
    assert words.tolist() == [FIXED, *range(size), FIXED]
