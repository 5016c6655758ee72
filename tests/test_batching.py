import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlp_core.config.recipe import BucketsConfig
from nlp_core.data.batching import (
    LookedUp,
    Ragged,
    draw_bootstrap,
    number_buckets,
    order_evaluation_batches,
    order_training_batches,
    order_training_groups,
)

lengths_of = st.lists(st.integers(1, 30), min_size=1, max_size=200).map(np.array)


@given(lengths_of, st.integers(1, 16), st.integers(0, 4), st.integers(1, 5))
def test_every_row_comes_once_an_epoch(
    lengths: np.ndarray, batch_size: int, pool: int, epoch: int
) -> None:
    batches = order_training_batches(
        lengths, batch_size=batch_size, bucket_batches=pool, seed=3, epoch=epoch
    )
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    assert max(len(batch) for batch in batches) <= batch_size


def test_numbers_are_looked_up_when_a_batch_is_taken() -> None:
    numbers = np.array([2, 0, 1, 1], dtype=np.int32)
    rows = LookedUp(np.array([10, 11, 12]), np.array([3, 0, 1]), np.array([1, 1, 2]), numbers)
    assert rows.take(np.array([0, 2]), padding=-1).tolist() == [[11, -1], [10, 11]]
    assert rows.mask(np.array([1])).tolist() == [[True]]
    empty = LookedUp(np.array([10]), np.array([0, 0]), np.array([0, 0]), numbers[:0])
    assert empty.take(np.array([0, 1]), padding=-1).tolist() == [[-1], [-1]]


def test_order_depends_on_seed_and_epoch_alone() -> None:
    lengths = np.arange(1, 200)

    def order(seed: int, epoch: int) -> list[int]:
        batches = order_training_batches(
            lengths, batch_size=8, bucket_batches=3, seed=seed, epoch=epoch
        )
        return [int(row) for batch in batches for row in batch]

    assert order(1, 1) == order(1, 1)
    assert order(1, 1) != order(1, 2)
    assert order(1, 1) != order(2, 1)


def test_buckets_need_less_padding_than_a_plain_shuffle() -> None:
    lengths = np.random.default_rng(0).integers(1, 60, size=2000)

    def padding(pool: int) -> int:
        batches = order_training_batches(
            lengths, batch_size=32, bucket_batches=pool, seed=1, epoch=1
        )
        return sum(int(lengths[rows].max() * len(rows) - lengths[rows].sum()) for rows in batches)

    assert padding(50) < 0.2 * padding(0)


def order_groups(
    group: np.ndarray, batch_size: int = 3, pool: int = 2, seed: int = 3, epoch: int = 1
) -> list[np.ndarray]:
    return order_training_groups(
        group,
        np.arange(1, len(group) + 1),
        batch_size=batch_size,
        bucket_batches=pool,
        seed=seed,
        epoch=epoch,
    )


groups_of = st.lists(st.integers(0, 20), min_size=1, max_size=100).map(np.array)


@given(groups_of, st.integers(1, 6), st.integers(0, 4), st.integers(1, 5))
def test_a_group_is_in_one_batch_alone_with_all_its_rows(
    group: np.ndarray, batch_size: int, pool: int, epoch: int
) -> None:
    batches = order_groups(group, batch_size, pool, epoch=epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(group)))
    owners = [set(group[rows].tolist()) for rows in batches]
    assert sum(len(found) for found in owners) == len(np.unique(group))
    assert all(len(found) <= batch_size for found in owners)
    assert len(batches) == -(-len(np.unique(group)) // batch_size), "as many in every epoch"


def test_the_order_of_groups_depends_on_seed_and_epoch_alone() -> None:
    group = np.arange(60) // 3

    def order(seed: int, epoch: int) -> list[list[int]]:
        return [rows.tolist() for rows in order_groups(group, seed=seed, epoch=epoch)]

    assert order(1, 1) == order(1, 1)
    assert order(1, 1) != order(1, 2)
    assert order(1, 1) != order(2, 1)


def test_rows_of_a_group_keep_their_order_and_need_not_be_neighbours() -> None:
    batches = order_groups(np.array([7, 2, 7, 2, 7]), batch_size=1, pool=0)
    assert sorted(rows.tolist() for rows in batches) == [[0, 2, 4], [1, 3]]


def test_evaluation_batches_are_sorted_by_length() -> None:
    batches = order_evaluation_batches(np.array([5, 1, 3, 1]), batch_size=2)
    assert [rows.tolist() for rows in batches] == [[1, 3], [2, 0]]


def test_ragged_rows_are_padded_behind_their_end() -> None:
    ragged = Ragged(np.array([7, 8, 9, 5]), np.array([0, 3, 3, 4]))
    rows = np.array([2, 0, 1])
    assert ragged.take(rows, padding=-1).tolist() == [[5, -1, -1], [7, 8, 9], [-1, -1, -1]]
    assert ragged.mask(rows).sum(axis=1).tolist() == [1, 3, 0]


@given(lengths_of, st.integers(1, 16), st.integers(0, 4), st.integers(10, 90))
def test_no_batch_has_more_than_its_tokens(
    lengths: np.ndarray, batch_size: int, pool: int, most: int
) -> None:
    batches = order_training_batches(
        lengths, batch_size=batch_size, bucket_batches=pool, seed=3, epoch=1, most_tokens=most
    )
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    for rows in batches:
        assert len(rows) <= batch_size
        assert len(rows) == 1 or lengths[rows].max() * len(rows) <= most


@given(lengths_of, st.integers(2, 9), st.integers(10, 90))
def test_tokens_are_counted_with_padding_to_a_multiple(
    lengths: np.ndarray, multiple: int, most: int
) -> None:
    batches = order_training_batches(
        lengths,
        batch_size=16,
        bucket_batches=2,
        seed=3,
        epoch=1,
        most_tokens=most,
        multiple=multiple,
    )
    for rows in batches:
        width = math.ceil(lengths[rows].max() / multiple) * multiple
        assert len(rows) == 1 or width * len(rows) <= most


def test_groups_count_all_their_tokens() -> None:
    group, lengths = np.array([0, 0, 1, 1, 2, 2]), np.array([3, 5, 5, 4, 5, 5])
    batches = order_training_groups(
        group, lengths, batch_size=8, bucket_batches=0, seed=1, epoch=1, most_tokens=20
    )
    assert sorted(len(rows) for rows in batches) == [2, 4]


def test_bootstrap_draws_with_replacement_by_the_seed() -> None:
    drawn = draw_bootstrap(1000, seed=3)
    assert drawn.tolist() == draw_bootstrap(1000, seed=3).tolist()
    assert len(drawn) == 1000
    assert 580 < len(np.unique(drawn)) < 690  # 632 expected, with a deviation of 10
    others = [draw_bootstrap(1000, seed=4), draw_bootstrap(1000, seed=3, stream=1)]
    assert all(drawn.tolist() != other.tolist() for other in others)


@pytest.mark.parametrize(
    ("widths", "expected"),
    [
        ("equal", [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]),
        ("linear", [0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2]),  # 2, 4 and 6 of 12
        ("exponential", [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]),  # 3.6, 4.0 and 4.4 of 12
    ],
)
def test_buckets_have_their_widths(widths: str, expected: list[int]) -> None:
    buckets = BucketsConfig.model_validate({"widths": widths, "count": 3}).list_widths()
    assert number_buckets(np.arange(5, 17), buckets).tolist() == expected
    assert number_buckets(np.array([4, 4]), buckets).tolist() == [0, 0]


@given(lengths_of, st.integers(1, 16), st.integers(1, 5), st.integers(10, 90))
def test_a_batch_is_of_one_bucket(
    lengths: np.ndarray, batch_size: int, count: int, most: int
) -> None:
    buckets = BucketsConfig(widths="exponential", count=count).list_widths()
    batches = [
        order_training_batches(
            lengths,
            batch_size=batch_size,
            bucket_batches=50,
            seed=3,
            epoch=1,
            most_tokens=most,
            buckets=buckets,
        )
        for _ in range(2)
    ]
    assert [rows.tolist() for rows in batches[0]] == [rows.tolist() for rows in batches[1]]
    assert sorted(np.concatenate(batches[0]).tolist()) == list(range(len(lengths)))
    number = number_buckets(lengths, buckets)
    for rows in batches[0]:
        assert len(set(number[rows].tolist())) == 1
        assert len(rows) == 1 or lengths[rows].max() * len(rows) <= most
