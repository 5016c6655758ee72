"""All symbols of a tree at once: mask-predict by hand, lengths, masks of training, answers."""

import pytest
import torch
from torch import Tensor

from nlp_core.errors import ConfigError
from nlp_core.heads.mask_predict import (
    MASKED,
    NonautoregressiveParsingHead,
    ParallelDecoder,
    PlannedScorer,
    _draw,
    mask_predict,
)
from nlp_core.heads.pointer import PointerDecoder
from reglue_runtime.tree import is_tree, write_tree

LABELS = ["IN:A", "SL:B", "SL:C"]


def make_head(**options: object) -> NonautoregressiveParsingHead:
    torch.manual_seed(1)
    settings = {"hidden_dim": 8, "num_heads": 2, "num_layers": 1, "max_constituents": 3}
    return NonautoregressiveParsingHead(4, 3, **settings | options)  # type: ignore[arg-type]


def test_mask_predict_by_hand() -> None:
    asked: list[list[list[int]]] = []
    answers = [
        [[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.2, 0.8]],
        [[0.1, 0.9], [0.05, 0.95], [0.9, 0.1], [0.9, 0.1]],
        [[0.1, 0.9], [0.9, 0.1], [0.45, 0.55], [0.9, 0.1]],
    ]

    def predict(ids_BS: Tensor) -> Tensor:
        asked.append(ids_BS.tolist())
        return torch.tensor([answers[len(asked) - 1]] * 2).log()

    # the second sentence has two symbols
    inside = torch.tensor([[True] * 4, [True, True, False, False]])
    odds = mask_predict(predict, inside, 3)
    # of four symbols 4, 2 and 1 are masked, of two 2, 1 and 0
    assert asked[0] == [[MASKED] * 4] * 2
    assert asked[1][0] == [0, MASKED, MASKED, 1]
    assert asked[1][1][:2] == [0, MASKED]
    # now 0.9, 0.95, 0.9, 0.8: the last is the least sure
    assert asked[2][0] == [0, 1, 0, MASKED]
    assert asked[2][1][:2] == [0, 1]
    expected = [answers[0][0], answers[1][1], answers[1][2], answers[2][3]]
    torch.testing.assert_close(odds[0].exp(), torch.tensor(expected))
    torch.testing.assert_close(odds[1, :2].exp(), torch.tensor([answers[0][0], answers[1][1]]))


def test_training_masks_one_to_all_symbols() -> None:
    torch.manual_seed(2)
    inside = torch.tensor([[True] * 4, [True, True, False, False]]).repeat(400, 1)
    masked = _draw(inside)
    assert not masked[~inside].any()
    for first, size in ((0, 4), (1, 2)):
        counts = masked[first::2].sum(1).bincount(minlength=5).tolist()
        assert counts[0] == sum(counts[size + 1 :]) == 0
        assert all(400 / size * 0.7 < count < 400 / size * 1.3 for count in counts[1 : size + 1])


def test_the_loss_is_that_of_the_masked_symbols_and_of_their_number() -> None:
    head = make_head(iterations=1).double()
    x, mask = torch.randn(1, 2, 4).double(), torch.ones(1, 2, dtype=torch.bool)
    actions = torch.tensor([[2, 0, 3, 0, 1, 1]])  # [IN:A w0 [SL:B w1 ] ]
    (expert,) = head.experts
    assert isinstance(expert, ParallelDecoder)
    odds = expert.rate(
        expert.read(torch.full((1, 6), MASKED), x, mask, torch.ones(1, 6, dtype=torch.bool)),
        x,
        mask,
    )
    both = torch.cat(odds, -1)[0]
    # copies of w0 and w1 are the ids after the five symbols
    expected = both[torch.arange(6), torch.tensor([2, 5, 3, 6, 1, 1])]
    expected[0] = expected[0] + expert.rate_counts(x, mask)[0, 1]  # two constituents
    torch.testing.assert_close(head(x, mask, actions)[0, :, 0], expected)


def test_a_shift_is_the_next_token_at_the_place_of_a_step() -> None:
    odds = torch.arange(14.0).view(1, 2, 7)  # four symbols and three copies at two places
    scorer = PlannedScorer(odds, 4)
    assert scorer.score(torch.tensor([1])).tolist() == [[5, 1, 2, 3, 4, 5, 6]]
    for _ in range(3):  # after the last place its odds stay
        scorer.advance(torch.tensor([0]), torch.tensor([0]), torch.tensor([2]))
        assert scorer.score(torch.tensor([0])).tolist() == [[11, 8, 9, 10, 11, 12, 13]]


def test_an_answer_is_a_tree_and_needs_the_given_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    head = make_head(iterations=3, experts=2, beam=2).eval()
    passes: list[int] = []
    read = ParallelDecoder.read
    monkeypatch.setattr(ParallelDecoder, "read", lambda *args: passes.append(1) or read(*args))
    lengths = [7, 1, 4]
    mask = torch.arange(7) < torch.tensor(lengths).unsqueeze(1)
    decoded = head.decode(head(torch.randn(3, 7, 4), mask), mask)
    assert len(passes) == 2 * 3  # experts and iterations, whatever the lengths
    for row, length in zip(decoded.prediction.tolist(), lengths, strict=True):
        words = [f"w{idx}" for idx in range(length)]
        assert is_tree(write_tree([action for action in row if action >= 0], LABELS, words), words)


def test_an_empty_sentence_costs_nothing_in_evaluation() -> None:
    head = make_head().double().eval()
    x = torch.randn(2, 3, 4).double()
    mask = torch.tensor([[True] * 3, [False] * 3])
    target = torch.tensor([[2, 0, 0, 0, 1], [2, 0, 1, -1, -1]])
    both = head.loss(head(x, mask, target), target, mask)
    torch.testing.assert_close(both, head.loss(head(x[:1], mask[:1], target[:1]), target, mask[:1]))
    assert (head.decode(head(x, mask), mask).prediction[1] == -1).all()


def test_widths_of_heads_are_checked() -> None:
    with pytest.raises(ConfigError, match="found 8, expected a multiple of 2 and of num_heads, 3"):
        make_head(num_heads=3)


def test_the_order_of_a_decoders_weights_is_kept() -> None:
    """Their order decides the random numbers that each of them starts from."""
    names = [
        name
        for name, _ in PointerDecoder(
            3, 4, hidden_dim=5, symbol_dim=2, dropout=0.0
        ).named_children()
    ]
    assert names == ["symbol", "copied", "first", "lstm", "query", "mix", "gate", "out"]


def test_a_plan_makes_nothing_on_the_default_device() -> None:
    head = make_head().eval()
    (decoder,) = head.experts
    assert isinstance(decoder, ParallelDecoder)
    x, mask = torch.randn(2, 3, 4), torch.tensor([[True] * 3, [True, False, False]])
    with torch.device("meta"), torch.no_grad():
        assert decoder.plan(x, mask).device.type == "cpu"
