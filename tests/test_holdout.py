from hypothesis import given
from hypothesis import strategies as st

from nlp_core.data.holdout import cut_by_key, cut_by_phrase_root, cut_by_row

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
