"""What every registered head promises, each with a row in ROWS, and values worked out by hand."""

import math

import pytest
import torch

from nlp_core.blocks import SEQUENCE
from nlp_core.blocks.option import check_options
from nlp_core.errors import ConfigError
from nlp_core.heads import HEADS
from nlp_core.heads.language_model import MaskedLanguageModelHead
from nlp_core.heads.parsing import ExpertHead, WritingHead
from nlp_core.heads.piece_writing import LabelTextHead
from nlp_core.heads.sentence import ClassificationHead, RegressionHead
from nlp_core.heads.span import SpanHead
from nlp_core.heads.tagging import CRFTaggingHead, TaggingHead
from tests.head_contract import (
    LABELS,
    LENGTHS,
    Batch,
    Row,
    build,
    decode,
    is_language_model,
    make,
    make_batch,
    run,
    score,
)

pytestmark = pytest.mark.usefixtures("deterministic")
KINDS = {
    "classification",
    "dialogue",
    "document",
    "generation",
    "intent_slots",
    "language_model",
    "masked_language_model",
    "multi_label",
    "pair_classification",
    "pair_regression",
    "parsing",
    "ranking",
    "regression",
    "retrieval",
    "span",
    "tagging",
}


ROWS = [
    Row("classification", {}),
    Row("classification", {"hidden_dims": [5, 6], "batch_norm": True}),
    Row("classification", {"class_weights": [0.1, 0.6, 0.3], "dropout": 0.0}),
    Row("classification", {"loss": {"name": "cross_entropy", "label_smoothing": 0.1}}),
    Row("classification", {"loss": {"name": "focal", "gamma": 0.5}, "class_weights": [1.0, 2, 3]}),
    Row("label_text", {}),
    Row("label_text", {"constrained": False}),
    Row("language_model", {"vocabulary": "word", "tied": False}),
    Row("masked_language_model", {"share": 0.2, "whole_words": True}),
    Row("multi_label", {}),
    Row("multi_label", {"loss": {"name": "focal"}}),
    Row("multi_label", {"hidden_dims": [5], "class_weights": [0.5, 1.0, 2.0], "threshold": 0.3}),
    Row("pairwise_ranking", {"hidden_dims": [5], "activation": "tanh"}),
    Row("pairwise_ranking", {"loss": {"name": "logistic"}}),
    Row("pretrained_decoder", {}),
    Row("pretrained_decoder", {"beam": 3, "penalty": 0.5, "max_pieces": 7}),
    Row("listwise_ranking", {"hidden_dims": [5]}),
    Row("rnng", {"hidden_dim": 6, "action_dim": 3}),
    Row("rnng", {"composition": "sum", "experts": 2, "beam": 2}),
    Row("rnng", {"parts": ["stack"], "constraints": "brackets"}),
    Row("seq2seq", {"hidden_dim": 6, "symbol_dim": 3}),
    Row("seq2seq", {"experts": 2, "beam": 3, "max_words": 7, "penalty": 0.5}),
    Row("seq2seq", {"top_p": 0.8, "temperature": 1.5, "sampling_seed": 3, "max_words": 7}),
    Row("seq2seq_parsing", {"hidden_dim": 6, "symbol_dim": 3}),
    Row("seq2seq_parsing", {"experts": 2, "beam": 3, "constraints": "none", "max_open": 2}),
    Row("nonautoregressive_parsing", {"hidden_dim": 6, "num_heads": 2, "num_layers": 1}),
    Row("nonautoregressive_parsing", {"experts": 2, "beam": 2, "iterations": 2}),
    Row("regression", {"hidden_dims": [5], "activation": "tanh"}),
    Row("regression", {"output": "sigmoid", "low": 0.0, "high": 5.0}),
    Row("retrieval", {}, num_labels=2),
    Row("retrieval", {"similarity": "dot", "temperature": 1.0}, num_labels=2),
    Row("san_classification", {"steps": 3, "dropout": 0.0}),
    Row("san_classification", {"steps": 1, "class_weights": [0.5, 1.0, 2.0]}),
    Row("san_classification", {"loss": {"name": "focal"}, "dropout": 0.3, "step_dropout": 0.5}),
    Row("san_regression", {"step_dropout": 0.4}),
    Row("span", {}, num_labels=1),
    Row("span", {"max_answer_tokens": 2}, num_labels=2),
    Row("tagging", {}),
    Row("tagging", {"reduction": "token"}),
    Row("tagging", {"loss": {"name": "focal"}, "class_weights": [0.5, 1.0, 2.0]}),
    Row("tagging", {"loss": {"name": "cross_entropy", "label_smoothing": 0.2}}),
    Row("crf_tagging", {}),
    Row("crf_tagging", {"reduction": "token"}),
    Row("encoder_decoder_tagging", {"hidden_dim": 6, "label_dim": 3}),
    Row("encoder_decoder_tagging", {"reduction": "token"}),
]

each_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.head}-{row.options}")
each_tagger = pytest.mark.parametrize(
    "row",
    [row for row in ROWS if "tagging" in row.head],
    ids=lambda row: f"{row.head}-{row.options}",
)
each_on_tokens = pytest.mark.parametrize(
    "row",
    [row for row in ROWS if SEQUENCE in HEADS.get(row.head).ranks[0]],
    ids=lambda row: f"{row.head}-{row.options}",
)


each_of_tokens = pytest.mark.parametrize(
    "row",
    [
        row
        for row in ROWS
        if HEADS.get(row.head).target != "label"
        and SEQUENCE in HEADS.get(row.head).ranks[0]
        and row.head != "nonautoregressive_parsing"  # draws masks, see test_mask_predict.py
    ],
    ids=lambda row: f"{row.head}-{row.options}",
)


def test_every_head_has_a_row() -> None:
    assert sorted({row.head for row in ROWS}) == HEADS.names()


def test_every_kind_has_a_head() -> None:
    assert set().union(*(HEADS.get(name).kinds for name in HEADS.names())) == KINDS


@each_row
def test_options_pass_their_own_schema(row: Row) -> None:
    options = check_options(HEADS.get(row.head), row.options, where="here")
    assert list(options) == list(row.options)
    for name, value in row.options.items():
        found = options[name]
        assert value == (found.model_dump(exclude_unset=True) if name == "loss" else found)


@each_row
def test_shapes_of_scores_loss_and_prediction(row: Row) -> None:
    head = build(row)
    batch = make_batch(head)
    scores = score(head, batch)
    decoded = decode(head, scores, batch)
    assert run(head).loss.shape == ()
    if is_language_model(head):
        num_masked = int((batch.target != -1).sum())
        is_masked = isinstance(head, MaskedLanguageModelHead)
        assert scores.shape == ((num_masked, LABELS) if is_masked else batch.target.shape)
        assert decoded.prediction.shape == (3,)
        return
    if isinstance(head, WritingHead):
        experts = [len(head.experts)] if isinstance(head, ExpertHead) else []
        assert scores.shape == (*batch.target.shape, *experts)
        assert decoded.probability is not None
        assert (len(decoded.prediction), *decoded.probability.shape) == (3, 3, 1)
        return
    assert decoded.prediction.shape == batch.target.shape
    if isinstance(head, LabelTextHead):
        assert scores.shape == (3,)
        assert decoded.probability is not None
        assert decoded.probability.shape == (3, LABELS)
        return
    if isinstance(head, SpanHead):
        assert scores.shape == (3, max(LENGTHS) + head.has_none, 2)
        assert decoded.probability is not None
        assert decoded.probability.shape == (3, row.num_labels)
    elif batch.mask is not None and batch.parts is None:
        assert scores.shape == (*batch.target.shape, LABELS)
        assert decoded.probability is None
    elif head.separate:
        assert scores.shape == (3, 3)
        assert decoded.probability is None
    elif head.kinds & {"regression", "pair_regression"}:
        assert scores.shape == (3,)
        assert decoded.probability is None
    else:
        assert scores.shape == ((3,) if head.grouped else (3, LABELS))
        assert decoded.probability is not None
        assert decoded.probability.shape == (3, 2 if head.grouped else LABELS)
        if "multi_label" in head.kinds:
            return
        torch.testing.assert_close(decoded.probability.sum(-1), torch.ones(3).double())


@each_on_tokens
@pytest.mark.parametrize("extra", [1, 6])
def test_padding_changes_no_loss_prediction_or_gradient(row: Row, extra: int) -> None:
    plain, padded = run(build(row)), run(build(row), extra=extra)
    # sums of another length are rounded differently
    torch.testing.assert_close(plain._asdict(), padded._asdict(), rtol=1e-10, atol=1e-10)


@each_row
def test_every_parameter_gets_a_gradient(row: Row) -> None:
    head = build(row)
    grads = run(head).parameters
    dead = [n for n, _ in head.named_parameters() if n not in grads or not grads[n].any()]
    assert dead == []


@each_row
def test_a_head_trains_and_predicts_in_16_bits_on_a_cpu(row: Row) -> None:
    head = build(row).float()
    batch = make_batch(head)
    target = batch.target.float() if batch.target.is_floating_point() else batch.target
    batch = batch._replace(x=batch.x.detach().float().requires_grad_(), target=target)
    with torch.autocast("cpu", torch.bfloat16):
        scores = score(head, batch)
        loss = head.loss(scores, target, head.select_where(batch.mask, batch.group))
        loss.backward()
        with torch.no_grad():
            decode(head.eval(), scores.detach(), batch)
    assert loss.isfinite()


@each_row
def test_same_seed_gives_same_bits(row: Row) -> None:
    first, second = run(build(row)), run(build(row))
    torch.testing.assert_close(first._asdict(), second._asdict(), rtol=0, atol=0)


@each_row
def test_state_dict_restores_the_head(row: Row) -> None:
    head = build(row)
    run(head)
    torch.manual_seed(99)
    other = make(row)
    other.load_state_dict(head.state_dict())
    head.zero_grad()
    first, second = run(head.eval()), run(other.eval())
    torch.testing.assert_close(first._asdict(), second._asdict(), rtol=0, atol=0)


@each_of_tokens
def test_empty_sentence_costs_nothing(row: Row) -> None:
    head = build(row)
    batch = make_batch(head)
    assert batch.mask is not None
    mask = batch.mask.clone()
    mask[1] = False
    keep = [0, 2]
    all_scores = score(head, batch._replace(mask=mask))
    loss = head.loss(all_scores, batch.target, mask)
    copies = None if batch.copies is None else batch.copies[keep]
    part = Batch(batch.x[keep], batch.target[keep], mask[keep], copies=copies)
    torch.testing.assert_close(loss, head.loss(score(head, part), part.target, part.mask))
    nothing = 0 if is_language_model(head) else -1
    assert (decode(head, all_scores, batch._replace(mask=mask)).prediction[1] == nothing).all()


@each_tagger
def test_marginals_are_probabilities(row: Row) -> None:
    head = build(row)
    assert isinstance(head, TaggingHead | CRFTaggingHead)
    batch = make_batch(head)
    assert batch.mask is not None
    total = head.marginals(head(batch.x, batch.mask), batch.mask).sum(-1)
    torch.testing.assert_close(total, batch.mask.double())


def test_class_weights_make_a_weighted_mean() -> None:
    head = ClassificationHead(2, 2, class_weights=[0.1, 0.9])
    scores = torch.tensor([[0.0, 0.0], [math.log(3.0), 0.0]])
    loss = head.loss(scores, torch.tensor([0, 1]))
    assert float(loss) == pytest.approx(0.1 * math.log(2.0) + 0.9 * math.log(4.0))


def test_class_weights_are_one_a_label() -> None:
    with pytest.raises(ConfigError, match="found 2 weights, expected one for each of 3 labels"):
        ClassificationHead(4, 3, class_weights=[0.5, 0.5])


def test_classification_decodes_probabilities() -> None:
    decoded = ClassificationHead(2, 2).decode(torch.tensor([[math.log(3.0), 0.0]]))
    assert decoded.prediction.tolist() == [0]
    assert decoded.probability is not None
    torch.testing.assert_close(decoded.probability, torch.tensor([[0.75, 0.25]]))


def test_sigmoid_regression_stays_in_its_range() -> None:
    head = RegressionHead(1, 1, output="sigmoid", low=1.0, high=5.0)
    with torch.no_grad():
        head.layers.out.weight.fill_(1.0)
        head.layers.out.bias.zero_()
    found = head(torch.tensor([[0.0], [math.log(3.0)], [-100.0]]))
    torch.testing.assert_close(found, torch.tensor([3.0, 4.0, 1.0]))


def test_regression_loss_is_the_mean_square() -> None:
    loss = RegressionHead(1, 1).loss(torch.tensor([1.0, 3.0]), torch.tensor([2.0, 5.0]))
    assert float(loss) == pytest.approx(2.5)


def test_regression_range_is_checked() -> None:
    with pytest.raises(ConfigError, match=r"low 5.0 and high 0.0"):
        RegressionHead(4, 1, low=5.0, high=0.0)


@pytest.mark.parametrize(("reduction", "units"), [("sentence", 2), ("token", 3)])
@pytest.mark.parametrize("name", ["tagging", "crf_tagging"])
def test_loss_of_equal_scores_is_log_labels_a_token(name: str, reduction: str, units: int) -> None:
    head = HEADS.get(name)(4, 3, reduction=reduction)
    mask = torch.tensor([[True, True], [True, False]])
    target = torch.tensor([[0, 2], [1, -1]])
    loss = head.loss(torch.zeros(2, 2, 3), target, mask)
    assert float(loss.detach()) == pytest.approx(3 * math.log(3.0) / units)


def test_crf_with_zero_transitions_is_a_softmax() -> None:
    torch.manual_seed(0)
    crf, softmax = CRFTaggingHead(4, 3), TaggingHead(4, 3)
    softmax.load_state_dict({f"emission.{k}": v for k, v in crf.emission.state_dict().items()})
    x, mask = torch.randn(2, 3, 4), torch.tensor([[True] * 3, [True, False, False]])
    target = torch.tensor([[0, 1, 2], [1, -1, -1]])
    first = crf.loss(crf(x, mask), target, mask)
    torch.testing.assert_close(first, softmax.loss(softmax(x, mask), target, mask))
    assert torch.equal(
        crf.decode(crf(x, mask), mask).prediction, softmax.decode(softmax(x, mask), mask).prediction
    )


def test_crf_learns_an_order_of_labels() -> None:
    torch.manual_seed(0)
    head = CRFTaggingHead(1, 2)
    x, mask = torch.zeros(1, 6, 1), torch.ones(1, 6, dtype=torch.bool)
    target = torch.tensor([[1, 0, 1, 0, 1, 0]])
    optimiser = torch.optim.SGD(head.parameters(), lr=0.5)
    for _ in range(30):
        optimiser.zero_grad()
        head.loss(head(x, mask), target, mask).backward()
        optimiser.step()
    assert head.decode(head(x, mask), mask).prediction.tolist() == target.tolist()
