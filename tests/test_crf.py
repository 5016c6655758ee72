"""The random field against all paths written out, and against plain autograd."""

import itertools

import pytest
import torch
from torch import Tensor

from nlp_core.heads.crf import (
    Chain,
    compute_log_partition,
    compute_marginals,
    find_best_path,
    score_path,
)

SIZES = [(2, 3), (3, 4), (4, 1)]


def make_chain(batch: int, time: int, num_labels: int, *, scale: float = 1.0) -> Chain:
    generator = torch.Generator().manual_seed(5)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).double()

    return Chain(
        draw(batch, time, num_labels) * scale,
        draw(num_labels, num_labels),
        draw(num_labels),
        draw(num_labels),
    )


def make_mask(lengths: list[int], time: int) -> Tensor:
    return torch.arange(time) < torch.tensor(lengths).unsqueeze(1)


def score_by_hand(chain: Chain, row: int, path: tuple[int, ...]) -> float:
    total = chain.start[path[0]] + chain.end[path[-1]]
    total = total + sum(chain.emission[row, t, label] for t, label in enumerate(path))
    total = total + sum(chain.transition[i, j] for i, j in itertools.pairwise(path))
    return float(total)


def all_paths(chain: Chain, row: int, length: int) -> dict[tuple[int, ...], float]:
    labels = range(chain.emission.shape[-1])
    paths = itertools.product(labels, repeat=length)
    return {path: score_by_hand(chain, row, path) for path in paths}


def log_partition_by_autograd(chain: Chain, mask: Tensor) -> Tensor:
    score = chain.emission[:, 0] + chain.start
    for t in range(1, mask.shape[1]):
        step = torch.logsumexp(score.unsqueeze(-1) + chain.transition, 1) + chain.emission[:, t]
        score = torch.where(mask[:, t, None], step, score)
    return torch.logsumexp(score + chain.end, 1)


def test_two_labels_three_tokens_by_hand() -> None:
    emission = torch.tensor([[[1.0, 0.0], [0.0, 2.0], [0.0, 1.0]]]).double()
    transition = torch.tensor([[0.0, 1.0], [-1.0, 0.5]]).double()
    chain = Chain(emission, transition, torch.zeros(2).double(), torch.zeros(2).double())
    # paths 000 001 010 011 100 101 110 111
    scores = torch.tensor([1.0, 3.0, 3.0, 5.5, -1.0, 1.0, 1.5, 4.0]).double()
    mask = make_mask([3], 3)
    torch.testing.assert_close(compute_log_partition(chain, mask)[0], scores.logsumexp(0))
    assert find_best_path(chain, mask).tolist() == [[0, 1, 1]]
    first = compute_marginals(chain, mask).label[0, 0, 0]
    torch.testing.assert_close(first, scores.softmax(0)[:4].sum())


@pytest.mark.parametrize(("num_labels", "time"), SIZES)
def test_partition_and_best_path_equal_brute_force(num_labels: int, time: int) -> None:
    lengths = [time, max(time - 1, 1), 1]
    chain, mask = make_chain(3, time, num_labels), make_mask(lengths, time)
    log_partition = compute_log_partition(chain, mask)
    best = find_best_path(chain, mask)
    for row, length in enumerate(lengths):
        paths = all_paths(chain, row, length)
        expected = torch.tensor(list(paths.values())).double().logsumexp(0)
        torch.testing.assert_close(log_partition[row], expected)
        assert tuple(best[row, :length].tolist()) == max(paths, key=lambda path: paths[path])


@pytest.mark.parametrize(("num_labels", "time"), SIZES)
def test_path_score_equals_the_written_out_sum(num_labels: int, time: int) -> None:
    lengths = [time, max(time - 1, 1), 1]
    chain, mask = make_chain(3, time, num_labels), make_mask(lengths, time)
    label = torch.arange(3 * time).view(3, time) % num_labels
    found = score_path(chain, label.masked_fill(~mask, -1), mask)
    for row, length in enumerate(lengths):
        path = tuple(label[row, :length].tolist())
        assert float(found[row]) == pytest.approx(score_by_hand(chain, row, path))


def test_marginals_equal_brute_force() -> None:
    lengths = [4, 2]
    chain, mask = make_chain(2, 4, 3), make_mask(lengths, 4)
    found = compute_marginals(chain, mask).label
    for row, length in enumerate(lengths):
        paths = all_paths(chain, row, length)
        weight = torch.tensor(list(paths.values())).double().softmax(0)
        expected = torch.zeros(4, 3).double()
        for path, share in zip(paths, weight, strict=True):
            for t, label in enumerate(path):
                expected[t, label] += share
        torch.testing.assert_close(found[row], expected)


def test_gradient_passes_gradcheck() -> None:
    mask = make_mask([4, 2, 1], 4)
    chain = [part.requires_grad_() for part in make_chain(3, 4, 3)]
    assert torch.autograd.gradcheck(
        lambda *parts: compute_log_partition(Chain(*parts), mask), chain
    )


def test_gradient_equals_autograd_through_the_recursion() -> None:
    mask = make_mask([9, 4, 1, 6, 9], 9)
    chain = Chain(*(part.requires_grad_() for part in make_chain(5, 9, 7, scale=3.0)))
    weight = torch.tensor([1.0, -2.0, 0.5, 0.0, 3.0]).double()
    ours = torch.autograd.grad((compute_log_partition(chain, mask) * weight).sum(), chain)
    plain = torch.autograd.grad((log_partition_by_autograd(chain, mask) * weight).sum(), chain)
    torch.testing.assert_close(ours, plain)


@pytest.mark.parametrize("scale", [1e2, 1e4])
def test_extreme_emissions_stay_exact(scale: float) -> None:
    mask = make_mask([8, 5], 8)
    chain = Chain(*(part.requires_grad_() for part in make_chain(2, 8, 5, scale=scale)))
    ours, plain = compute_log_partition(chain, mask), log_partition_by_autograd(chain, mask)
    torch.testing.assert_close(ours, plain)
    first = torch.autograd.grad(ours.sum(), chain)
    second = torch.autograd.grad(plain.sum(), chain)
    torch.testing.assert_close(first, second)


def test_forbidden_transitions_are_never_taken() -> None:
    chain, mask = make_chain(2, 6, 3), make_mask([6, 4], 6)
    transition = chain.transition.clone()
    transition[0, 1] = -10000.0
    chain = chain._replace(transition=transition)
    torch.testing.assert_close(
        compute_log_partition(chain, mask), log_partition_by_autograd(chain, mask)
    )
    found = compute_marginals(chain, mask)
    assert found.label.isfinite().all()
    path = find_best_path(chain, mask)
    assert not ((path[:, :-1] == 0) & (path[:, 1:] == 1)).any()


def test_padding_changes_nothing() -> None:
    short, long = make_mask([4, 2], 4), make_mask([4, 2], 7)
    chain = make_chain(2, 7, 3)
    cut = chain._replace(emission=chain.emission[:, :4])
    torch.testing.assert_close(
        compute_log_partition(chain, long), compute_log_partition(cut, short)
    )
    assert find_best_path(chain, long)[long].tolist() == find_best_path(cut, short)[short].tolist()
    padded = compute_marginals(chain, long).label
    torch.testing.assert_close(padded[:, :4], compute_marginals(cut, short).label)
    assert not padded[:, 4:].any()
