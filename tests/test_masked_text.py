"""Masking: shares, whole words, what is never masked, and the fixed masking of what is measured."""

import numpy as np
import pytest

from nlp_core.config.pretraining import MaskingConfig
from nlp_core.data.masked_text import MaskedText, choose_pieces, mask_pieces, mask_text
from nlp_core.data.window import FIXED
from nlp_core.data.word_piece import PieceSet, read_pieces
from tests.tiny_encoder import PIECES, make_tokenizer

MASK = 4
ORDINARY = np.arange(5, 1000)
RULE = MaskingConfig(share=0.15, most=20, hidden_prob=0.8, random_prob=0.1, whole_words=False)


def make_batch(rows: int, width: int = 102) -> tuple[np.ndarray, np.ndarray]:
    """Return windows of 100 words between two special pieces, and then padding."""
    ids = np.random.default_rng(1).integers(5, 1000, size=(rows, width + 5))
    words = np.tile(np.arange(width + 5) - 1, (rows, 1))
    ids[:, [0, width - 1]], words[:, [0, width - 1]] = [2, 3], FIXED
    ids[:, width:], words[:, width:] = 0, FIXED
    return ids, words


def mask(ids: np.ndarray, words: np.ndarray, rule: MaskingConfig, seed: int = 1):  # type: ignore[no-untyped-def]
    generator = np.random.default_rng(seed)
    return mask_pieces(ids, words, rule, mask=MASK, ordinary=ORDINARY, generator=generator)


def test_most_are_hidden_some_are_other_pieces_and_some_stay() -> None:
    ids, words = make_batch(2000)
    found = mask(ids, words, RULE)
    assert len(found.positions) == 2000 * 15
    np.testing.assert_array_equal(found.targets, ids.ravel()[found.positions])
    read = found.ids.ravel()[found.positions]
    hidden, kept = (read == MASK).mean(), (read == found.targets).mean()
    # three standard deviations of a share over 30,000 draws are 0.007
    assert hidden == pytest.approx(0.8, abs=0.007)
    assert kept == pytest.approx(0.1, abs=0.007)
    untouched = np.ones(ids.size, dtype=bool)
    untouched[found.positions] = False
    np.testing.assert_array_equal(found.ids.ravel()[untouched], ids.ravel()[untouched])
    assert np.isin(read, [MASK, *ORDINARY]).all()


def test_special_pieces_and_padding_are_never_masked() -> None:
    ids, words = make_batch(200)
    columns = (
        mask(ids, words, RULE.model_copy(update={"share": 0.9, "most": 99})).positions
        % ids.shape[1]
    )
    assert columns.min() == 1
    assert columns.max() == 100
    nothing = np.full((2, 7), FIXED)
    assert len(mask(np.zeros((2, 7), dtype=int), nothing, RULE).positions) == 0


def test_masking_depends_on_its_generator_alone() -> None:
    ids, words = make_batch(4)
    np.testing.assert_array_equal(mask(ids, words, RULE).ids, mask(ids, words, RULE).ids)
    assert (mask(ids, words, RULE).ids != mask(ids, words, RULE, seed=2).ids).any()


@pytest.mark.parametrize(("size", "most", "expected"), [(100, 20, 15), (100, 7, 7), (3, 20, 1)])
def test_number_of_masked_pieces(size: int, most: int, expected: int) -> None:
    rule, generator = RULE.model_copy(update={"most": most}), np.random.default_rng(1)
    assert len(choose_pieces(np.arange(size), rule, generator)) == expected


def test_whole_words_are_masked_whole() -> None:
    words = np.repeat(np.arange(40), np.tile([1, 2, 3, 1], 10))
    words[::17] = FIXED
    rule, generator = RULE.model_copy(update={"whole_words": True}), np.random.default_rng(1)
    sizes = []
    for _ in range(200):
        chosen = choose_pieces(words, rule, generator)
        sizes.append(len(chosen))
        for word in np.unique(words[chosen]):
            assert set(np.flatnonzero(words == word)) <= set(chosen)
    wanted = round(0.15 * (words != FIXED).sum())
    assert max(sizes) == wanted
    assert np.mean(sizes) > wanted - 0.5


def test_a_word_too_long_for_any_window_is_passed_over() -> None:
    rule = RULE.model_copy(update={"whole_words": True, "most": 2})
    generator = np.random.default_rng(1)
    assert len(choose_pieces(np.zeros(5, dtype=int), rule, generator)) == 0
    assert len(choose_pieces(np.array([0, 0, 1, 1]), rule, generator)) == 2


@pytest.fixture(scope="module")
def pieces() -> PieceSet:
    return read_pieces(make_tokenizer().to_str(), "t")


def make_text(pieces: PieceSet) -> MaskedText:
    documents = [["The good film. A [UNK] film is bad."] * size for size in (1, 4, 9)]
    return mask_text("t", documents, pieces, length=12)


def test_fixed_masking_hides_every_chosen_piece_whatever_the_batch(pieces: PieceSet) -> None:
    text = make_text(pieces)
    whole, masked = text.batch(range(len(text)))
    assert (masked.ids.ravel()[masked.positions] == PIECES.index("[MASK]")).all()
    assert (masked.targets > PIECES.index("[MASK]")).all()
    width = whole.ids.shape[1]
    for row in range(len(text)):
        alone, own = text.batch(range(row, row + 1))
        size = int(alone.inside.sum())
        np.testing.assert_array_equal(own.ids[0, :size], masked.ids[row, :size])
        here = masked.positions // width == row
        np.testing.assert_array_equal(own.targets, masked.targets[here])


def test_a_part_of_a_text_is_masked_as_the_whole(pieces: PieceSet) -> None:
    text = make_text(pieces)
    part = text.thin(3)
    assert len(part) == 3
    assert part.thin(5) is part
    for row, number in enumerate(part.numbers):
        own, same = part.batch(range(row, row + 1)), text.batch(range(number, number + 1))
        np.testing.assert_array_equal(own[1].ids, same[1].ids)


def test_ordinary_pieces_are_those_of_texts(pieces: PieceSet) -> None:
    assert pieces.ordinary.tolist() == list(range(5, len(PIECES)))
    assert (pieces.padding, pieces.first, pieces.last, pieces.mask) == (0, 2, 3, 4)
