"""A row of the contract tests of heads: its head, a batch, and a pass forwards and backwards."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from nlp_core.blocks import SEQUENCE
from nlp_core.blocks.option import check_options
from nlp_core.heads import HEADS, Decoded, Head
from nlp_core.heads.generation import SequenceHead
from nlp_core.heads.language_model import MaskedLanguageModelHead
from nlp_core.heads.parsing import WritingHead
from nlp_core.heads.piece_writing import LabelTextHead
from nlp_core.heads.span import SpanHead
from nlp_core.heads.stochastic_answer import StochasticAnswerHead

DIM, LABELS, LENGTHS = 4, 3, [5, 1, 3]


TREES = torch.tensor(
    [
        [2, 0, 3, 0, 4, 0, 1, 1, 0, 0, 1],
        [2, 0, 1, -1, -1, -1, -1, -1, -1, -1, -1],
        [3, 0, 2, 0, 1, 0, 1, -1, -1, -1, -1],
    ]
)
"""Actions that write a tree over each of the sentences, LENGTHS."""


TEXTS = torch.tensor([[2, 6, 4, 0], [3, 0, -1, -1], [5, 1, 0, -1]])
"""Ids that write a text for each of the sentences: words, copies of places 1 and 0, an unknown."""
COPIES = torch.tensor([[2, 6, 4, 6, 9], [3, -1, -1, -1, -1], [5, 2, 3, -1, -1]])


class Row(NamedTuple):
    head: str
    options: dict[str, Any]
    num_labels: int = LABELS


def make(row: Row) -> Head:
    kind = HEADS.get(row.head)
    options = check_options(kind, row.options, where="here")
    widths = [DIM] * len(kind.ranks)
    return kind(*widths, 2 if kind.grouped else row.num_labels, **options).double()


def build(row: Row) -> Head:
    torch.manual_seed(1)
    head = make(row)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.add_(torch.rand_like(parameter) * 0.1)
    return head


class Batch(NamedTuple):
    x: Tensor
    target: Tensor
    mask: Tensor | None
    group: Tensor | None = None
    parts: Tensor | None = None
    copies: Tensor | None = None

    @property
    def targets(self) -> dict[str, Tensor]:
        names = ("label", "labels", "tags", "next_word", "answers", "masked", "tree", "output")
        return dict.fromkeys(names, self.target)


class Speller:
    """A decoder of pieces that attends to the mean of what it reads; see `PieceDecoder`."""

    end = 0
    weight = torch.linspace(-1, 1, 2 * DIM * 10).view(2, DIM, 10).double()

    def build_cache(self) -> "Speller":
        return self

    def reorder_cache(self, rows: Tensor) -> None:
        """Keep no state."""

    def rate(self, x: Tensor, mask: Tensor, before: Tensor, cache: object = None) -> Tensor:
        mean = (x * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)
        reading, own = self.weight.to(x)
        scores: Tensor = (mean.unsqueeze(1) + own.T[before.clamp(min=0)]) @ reading
        return scores.log_softmax(-1)


def is_language_model(head: Head) -> bool:
    return head.target in ("next_word", "masked")


def make_batch(head: Head, *, extra: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(7)
    if SEQUENCE in head.ranks[0]:
        time = max(LENGTHS) + extra
        mask = torch.arange(time) < torch.tensor(LENGTHS).unsqueeze(1)
        x = torch.full((3, time, DIM), 50.0).double()
        x[:, : max(LENGTHS)] = torch.randn(3, max(LENGTHS), DIM, generator=generator).double()
        target = torch.full((3, time), -1)
        target[:, : max(LENGTHS)] = torch.arange(15).view(3, 5) % LABELS
        x = x.masked_fill(~mask.unsqueeze(-1), 50.0)
        if isinstance(head, SequenceHead):
            copies = torch.nn.functional.pad(COPIES, (0, extra), value=-1)
            return Batch(x.requires_grad_(), TEXTS, mask, copies=copies)
        if isinstance(head, WritingHead | LabelTextHead):
            answers = {"output": TEXTS, "label": torch.tensor([2, 0, 1]), "tree": TREES}
            return Batch(x.requires_grad_(), answers[head.target], mask)
        if isinstance(head, SpanHead):
            second = -1 if head.has_none else 0
            ends = torch.tensor([[1, 2], [second, second], [0, 2]])
            return Batch(x.requires_grad_(), ends, mask)
        if isinstance(head, StochasticAnswerHead):
            parts = torch.tensor([0, 1, 2, 2, 1] + [0] * extra).expand(3, -1) * mask
            target = torch.tensor([2, 0, 1])
            is_value = "pair_regression" in head.kinds
            return Batch(
                x.requires_grad_(), target.double() if is_value else target, mask, None, parts
            )
        return Batch(x.requires_grad_(), target.masked_fill(~mask, -1), mask)
    x = torch.randn(3, DIM, generator=generator).double().requires_grad_()
    if "regression" in head.kinds:
        return Batch(x, torch.tensor([0.0, 2.5, 5.0]).double(), None)
    if head.separate:
        place = torch.tensor([[4, 0], [4, 1], [5, 2]])
        return Batch(x, torch.tensor([1, 0, 1]), None, place)
    if head.grouped:
        return Batch(x, torch.tensor([1, 0, 1]), None, torch.tensor([4, 4, 4]))
    if "multi_label" in head.kinds:
        return Batch(x, torch.tensor([[1.0, 0, 1], [0, 0, 0], [0, 1, 0]]).double(), None)
    return Batch(x, torch.tensor([2, 0, 1]), None)


def score(head: Head, batch: Batch) -> Tensor:
    more: list[Any] = list(head.read(batch, informed=isinstance(head, WritingHead | LabelTextHead)))
    more += [Speller()] * head.writes_pieces
    if isinstance(head, MaskedLanguageModelHead):
        more.append(torch.linspace(-1, 1, LABELS * DIM).view(LABELS, DIM).to(batch.x))
    scores: Tensor = head(*[batch.x] * len(head.ranks), batch.mask, *more)
    return scores


def decode(head: Head, scores: Tensor, batch: Batch) -> Decoded:
    more = [batch.target] if head.decodes_target else []
    if isinstance(head, WritingHead | LabelTextHead):
        read: list[Any] = [*head.read(batch, informed=False), *[Speller()] * head.writes_pieces]
        scores = head(batch.x.detach(), batch.mask, *read)
    return head.decode(scores, batch.mask, *more)


class Outcome(NamedTuple):
    loss: Tensor
    prediction: Tensor
    x: Tensor
    parameters: dict[str, Tensor]


def run(head: Head, *, extra: int = 0) -> Outcome:
    batch = make_batch(head, extra=extra)
    scores = score(head, batch)
    loss = head.loss(scores, batch.target, head.select_where(batch.mask, batch.group))
    loss.backward()
    prediction = decode(head, scores.detach(), batch).prediction
    assert batch.x.grad is not None
    grad = batch.x.grad
    if batch.mask is not None:
        assert not grad[~batch.mask].any(), "padding gets a gradient"
        grad = grad[:, : max(LENGTHS)]
        if (
            not is_language_model(head)
            and not isinstance(head, SpanHead)
            and not isinstance(head, StochasticAnswerHead | WritingHead | LabelTextHead)
        ):
            assert (prediction[~batch.mask] == -1).all()
            prediction = prediction[:, : max(LENGTHS)]
    grads = {name: p.grad for name, p in head.named_parameters() if p.grad is not None}
    return Outcome(loss.detach(), prediction, grad, grads)
