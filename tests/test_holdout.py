from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nlp_core.data.holdout import (
    count_held_out,
    cut_by_key,
    cut_by_phrase_root,
    cut_by_row,
    draw_folds,
    draw_held_out,
)

SENTENCES = [
    f"the {noun} of film number {n} was rather fine".split()
    for n in range(20)
    for noun in ("plot", "cast")
]


@given(st.integers(2, 200), st.integers(0, 5))
def test_rows_are_cut_without_loss_and_in_order(num_rows: int, seed: int) -> None:
    parts = cut_by_row(num_rows, share=0.1, seed=seed)
    assert sorted(parts.train + parts.held_out) == list(range(num_rows))
    assert len(parts.held_out) == round(0.1 * num_rows)
    assert parts.held_out == sorted(parts.held_out)
    assert parts == cut_by_row(num_rows, share=0.1, seed=seed)


@given(st.lists(st.integers(0, 4), min_size=2, max_size=200), st.integers(0, 5))
def test_the_part_held_out_has_its_share_of_each_label(labels: list[int], seed: int) -> None:
    held = draw_held_out(len(labels), seed, np.array(labels))
    assert held.sum() == count_held_out(len(labels))
    for label, count in Counter(labels).items():
        own = int(held[np.array(labels) == label].sum())
        assert abs(own - count * held.mean()) <= 1.5


@given(st.lists(st.integers(0, 4), min_size=10, max_size=200), st.integers(2, 5))
def test_folds_share_each_label(labels: list[int], folds: int) -> None:
    fold = draw_folds(len(labels), folds, 1, np.array(labels))
    for label, count in Counter(labels).items():
        sizes = np.bincount(fold[np.array(labels) == label], minlength=folds)
        assert sizes.sum() == count
        assert sizes.max() - sizes.min() <= 1


def test_few_rows_give_a_larger_share() -> None:
    assert [count_held_out(rows) for rows in (2, 40, 300, 1500, 10**6)] == [1, 8, 60, 150, 20_000]


def test_another_seed_cuts_out_other_rows() -> None:
    assert cut_by_row(100, share=0.1, seed=1) != cut_by_row(100, share=0.1, seed=2)


@given(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=60))
def test_rows_with_one_key_stay_together(keys: list[str]) -> None:
    parts = cut_by_key(keys, share=0.3, seed=1)
    assert not {keys[row] for row in parts.train} & {keys[row] for row in parts.held_out}


def test_phrases_of_a_held_out_sentence_leave_train() -> None:
    phrases = [part for words in SENTENCES for part in (words[3:7], words, words[:6])]
    parts = cut_by_phrase_root(phrases, share=0.1, seed=1)
    assert len(parts.held_out) == 4
    assert all(phrases[row] in SENTENCES for row in parts.held_out)
    for row in parts.held_out:
        assert phrases[row][:6] not in [phrases[kept] for kept in parts.train]


def test_short_phrases_are_no_sentences() -> None:
    phrases = [["good"], ["very", "good"], ["not", "very", "good"]]
    assert cut_by_phrase_root(phrases, share=0.5, seed=1).held_out == []


def test_a_phrase_belongs_to_the_longest_that_holds_it() -> None:
    longer = list("abcdefg")
    phrases = [longer[:6], longer, ["b", "c"]]
    parts = cut_by_phrase_root(phrases, share=0.99, seed=1)
    assert parts.held_out == [1]
    assert parts.train == []
