"""Digests of weights: equal for equal bits, and the first tensor that differs is named."""

import torch

from nlp_core.training.weight_digest import digest_weights, find_first_difference

STATE = {"b": torch.ones(3), "a": torch.zeros(2, 2), "c": torch.arange(4)}


def test_the_order_of_the_names_does_not_count() -> None:
    assert digest_weights(STATE) == digest_weights(dict(sorted(STATE.items())))
    whole, _, each = digest_weights(STATE).partition("-")
    assert (len(whole), len(each)) == (16, 12)


def test_the_first_tensor_that_differs_by_name_is_named() -> None:
    moved = {**STATE, "b": torch.ones(3).nextafter(torch.tensor(2.0)), "c": torch.ones(4).long()}
    expected, found = digest_weights(STATE), digest_weights(moved)
    assert find_first_difference(expected, found, list(STATE)) == "b"
    assert find_first_difference(expected, expected, list(STATE)) is None


def test_another_number_of_tensors_is_a_difference() -> None:
    fewer = digest_weights({"a": STATE["a"]})
    found = find_first_difference(digest_weights(STATE), fewer, list(STATE))
    assert found == "another number of tensors"
