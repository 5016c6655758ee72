"""Encoder-decoders of transformers: their numbers, what their heads write, and labels as texts."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForSeq2SeqLM

from nlp_core.config.model import parse_model
from nlp_core.config.optimizer import OptimizerConfig
from nlp_core.data.pieces import PieceVocabulary
from nlp_core.data.split_column import RawText
from nlp_core.encoders.encoder_decoder import PretrainedEncoderDecoder
from nlp_core.encoders.folder import EncoderDecoderSize, read_size
from nlp_core.errors import ConfigError
from nlp_core.heads.piece_writing import LabelTextHead, PretrainedDecoderHead, rate_pieces
from nlp_core.models.batch import find_label
from nlp_core.models.features import Featurizer
from nlp_core.models.graph import _spell_labels
from nlp_core.models.plan import plan_model
from nlp_core.models.saving import load_tensors, save_tensors
from nlp_core.training.optimizer import build_optimizer
from tests.tiny_encoder_decoder import TINY_T5, write_encoder_decoder

TEXTS = ["call Ada now", "ask", "ask Bob and Cleo"]
RIGHT = ["Ada : call", "ask", "Bob Cleo"]
OPTIONS: dict[str, Any] = {"dim": 32, "max_length": 24}
BART = {
    "model_type": "bart",
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "max_position_embeddings": 32,
    "decoder_start_token_id": 2,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder_decoder(tmp_path_factory.mktemp("t5"), [*TEXTS, *RIGHT] * 4)


class Given:
    """An encoder-decoder, what its encoder makes of texts, and the right pieces."""

    def __init__(self, folder: Path, *, texts: list[str] = TEXTS, right: list[str] = RIGHT) -> None:
        vocabulary = PieceVocabulary.learn([], OPTIONS, folder)
        self.block = PretrainedEncoderDecoder.start(vocabulary, **OPTIONS).eval()
        assert isinstance(self.block, PretrainedEncoderDecoder)
        pieces, rows = vocabulary.read(RawText(texts, None)), torch.arange(len(texts)).numpy()
        fields = [torch.from_numpy(item) for item in pieces.take(rows)]
        self.ids, self.mask = fields[0], torch.from_numpy(pieces.outline().mask(rows))
        with torch.no_grad():
            self.x = self.block(*fields, self.mask)
        self.target = torch.from_numpy(vocabulary.spell(right).take(rows, padding=-1))
        self.vocabulary = vocabulary

    def write(self, rows: slice, **options: Any) -> tuple[list[str], Tensor]:
        head, mask = PretrainedDecoderHead(32, 0, **options), self.mask[rows]
        width = int(mask.sum(1).max())
        mask = mask[:, :width]
        decoded = head.decode(head(self.x[rows, :width], mask, self.block), mask)
        assert decoded.probability is not None
        return [self.vocabulary.write(row) for row in decoded.prediction.tolist()], (
            decoded.probability[:, 0]
        )


@pytest.mark.parametrize("values", [TINY_T5, {**TINY_T5, "tie_word_embeddings": False}, BART])
def test_the_numbers_are_those_of_transformers(tmp_path: Path, values: dict[str, Any]) -> None:
    given = Given(write_encoder_decoder(tmp_path, [*TEXTS, *RIGHT] * 4, **values))
    plain = AutoModelForSeq2SeqLM.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        expected = plain(
            input_ids=given.ids,
            attention_mask=given.mask.long(),
            labels=given.target.masked_fill(given.target < 0, -100),
        )
        head = PretrainedDecoderHead(32, 0)
        scores = head(given.x, given.mask, given.target, given.block)
        before = torch.nn.functional.pad(given.target[:, :-1], (1, 0), value=-1)
        log = given.block.rate(given.x, given.mask, before)
    real = given.target >= 0
    torch.testing.assert_close(
        log[real], expected.logits.log_softmax(-1)[real], rtol=1e-5, atol=1e-5
    )
    # transformers divides by the pieces, a head by the texts
    loss = head.loss(scores, given.target, given.mask) * len(TEXTS) / real.sum()
    torch.testing.assert_close(loss, expected.loss, rtol=1e-5, atol=1e-5)


def test_an_answer_is_that_of_transformers(folder: Path) -> None:
    given = Given(folder)
    plain = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    found = plain.generate(given.ids, attention_mask=given.mask.long(), max_new_tokens=9)
    expected = [given.vocabulary.write([i for i in row if i > 1]) for row in found.tolist()]
    assert given.write(slice(None), max_pieces=10)[0] == expected


@pytest.mark.parametrize("options", [{}, {"beam": 3, "penalty": 1.0}], ids=str)
def test_a_text_is_the_same_in_every_batch(folder: Path, options: dict[str, Any]) -> None:
    given = Given(folder)
    texts, chances = given.write(slice(None), max_pieces=7, **options)
    for row in range(len(TEXTS)):
        alone, chance = given.write(slice(row, row + 1), max_pieces=7, **options)
        assert alone == [texts[row]]
        torch.testing.assert_close(chance, chances[row : row + 1], rtol=1e-4, atol=0)


def test_an_answer_has_the_probability_of_training(folder: Path) -> None:
    given = Given(folder)
    head = PretrainedDecoderHead(32, 0, beam=2, max_pieces=8)
    decoded = head.decode(head(given.x, given.mask, given.block), given.mask)
    log = head(given.x, given.mask, decoded.prediction, given.block)
    log[:, 7] = 0.0  # the last step can only end a text
    assert decoded.probability is not None
    found = decoded.probability[:, 0].float()
    torch.testing.assert_close(log.sum(1).exp(), found, rtol=1e-4, atol=0)


def test_a_text_comes_back_from_its_pieces(folder: Path) -> None:
    vocabulary = Given(folder).vocabulary
    rows = vocabulary.spell(["ask Bob", "Ada :  call"])
    found = [rows.take(torch.tensor([row]).numpy())[0].tolist() for row in (0, 1)]
    assert [row[-1] for row in found] == [1, 1]
    assert [vocabulary.write([*row, -1]) for row in found] == ["ask Bob", "Ada : call"]


def test_weights_that_are_shared_are_stored_once(folder: Path, tmp_path: Path) -> None:
    given = Given(folder)
    block, other = given.block, PretrainedEncoderDecoder(given.vocabulary.config, dim=32)
    state = block.state_dict()
    assert "encoder.shared.weight" in state
    assert not [name for name in state if "lm_head" in name or "embed_tokens" in name]
    save_tensors(tmp_path / "w.safetensors", state)
    other.load_state_dict(load_tensors(tmp_path / "w.safetensors")[0])
    assert torch.equal(other.encoder.lm_head.weight, block.encoder.shared.weight)
    assert other.encoder.lm_head.weight is other.encoder.shared.weight


class Table:
    """A decoder whose next piece depends only on the piece before: 0 ends, 1 is a, 2 is b."""

    end = 0
    chances = torch.tensor([[0.1, 0.7, 0.2], [0.5, 0.1, 0.4], [0.3, 0.6, 0.1]])

    def build_cache(self) -> None:
        raise AssertionError

    def rate(self, x: Tensor, mask: Tensor, before: Tensor, cache: Any = None) -> Tensor:
        return self.chances[before.clamp(min=0)].log()  # the start is as the end


def choose(*spelling: list[int], constrained: bool) -> tuple[list[int], list[float]]:
    head = LabelTextHead(4, len(spelling), constrained=constrained)
    head.spelling = list(spelling)
    mask = torch.ones(1, 2, dtype=torch.bool)
    decoded = head.decode(head(torch.zeros(1, 2, 4), mask, Table()), mask)
    assert decoded.probability is not None
    return decoded.prediction.tolist(), decoded.probability[0].tolist()


def test_labels_are_written_by_hand() -> None:
    # p(a) = 0.7 * 0.5, p(b) = 0.2 * 0.3, p(a b) = 0.7 * 0.4 * 0.3
    labels = ([1, 0], [2, 0], [1, 2, 0])
    total = 0.35 + 0.06 + 0.084
    expected = [0.35 / total, 0.06 / total, 0.084 / total]
    assert choose(*labels, constrained=True) == ([0], pytest.approx(expected))
    # greedy: a, then the end
    assert choose(*labels, constrained=False) == ([0], pytest.approx([0.35, 0, 0]))
    assert choose([2, 0], [1, 2, 0], constrained=False) == ([-1], [0, 0])
    assert choose([2, 0], [1, 2, 0], constrained=True)[0] == [1]
    assert [find_label(["b", "a b"], idx) for idx in (-1, 1)] == ["", "a b"]


def test_the_loss_is_that_of_the_right_label() -> None:
    head, mask = LabelTextHead(4, 2), torch.ones(2, 2, dtype=torch.bool)
    head.spelling = [[1, 0], [1, 2, 0]]
    scores = head(torch.zeros(2, 2, 4), mask, torch.tensor([1, 0]), Table())
    torch.testing.assert_close(scores.exp(), torch.tensor([0.084, 0.35]))
    loss = head.loss(scores, torch.tensor([1, 0]), mask)
    torch.testing.assert_close(loss, -(torch.tensor([0.084, 0.35]).log().mean()))


def test_the_likeliest_pieces_are_those_of_free_writing(folder: Path) -> None:
    given = Given(folder)
    head = PretrainedDecoderHead(32, 0, max_pieces=8)
    written = head.decode(head(given.x, given.mask, given.block), given.mask).prediction
    found = rate_pieces(given.block, given.x, given.mask, written)
    # the last step can only end a text
    assert bool((found.is_likeliest | (written < 0))[:, :7].all())


def plan(head: dict[str, Any], block: str = "pretrained_encoder_decoder") -> Any:
    model = {
        "description": "d",
        "source": "s",
        "inputs": {"texts": "texts"},
        "layers": [
            {"name": "encoder", "block": block, "inputs": ["texts"], "dim": 32},
            {"name": "drop", "block": "dropout", "inputs": ["encoder"], "p": 0.1},
            {"name": "pooled", "block": "pooling", "inputs": ["drop"], "pool": "max"},
        ],
        "heads": {"other": {"head": "regression", "inputs": ["pooled"]}, "text": head},
    }
    return plan_model(parse_model(model, "m.json"), where="m.json")


@pytest.mark.parametrize(
    ("layer", "block"),
    [("drop", "pretrained_encoder_decoder"), ("encoder", "pretrained_encoder")],
)
def test_a_head_needs_the_layer_whose_decoder_writes(layer: str, block: str) -> None:
    with pytest.raises(ConfigError, match="expected a layer of the block pretrained_encoder_dec"):
        plan({"head": "pretrained_decoder", "inputs": [layer]}, block)


def test_labels_of_equal_pieces_are_an_error(folder: Path) -> None:
    vocabulary = Given(folder).vocabulary
    model = plan({"head": "label_text", "inputs": ["encoder"]})
    labels = {"label": ["#", "ask", "$"]}
    with pytest.raises(ConfigError, match=r"found the labels '#' and '\$', which the"):
        _spell_labels(Featurizer(model, {"encoder": vocabulary}, labels))


@pytest.mark.parametrize("sort", ["bert", "gpt2"])
def test_an_encoder_without_a_decoder_is_an_error(sort: str) -> None:
    with pytest.raises(ConfigError, match=f"type {sort}, expected an encoder-decoder"):
        PretrainedEncoderDecoder({"model_type": sort}, dim=8)


def test_a_learning_rate_for_each_layer_is_an_error() -> None:
    model = torch.nn.ModuleList([PretrainedEncoderDecoder({**TINY_T5, "vocab_size": 9}, dim=32)])
    config = OptimizerConfig(name="adamw", lr=1.0, layer_decay=0.5)
    with pytest.raises(ConfigError, match="found layer_decay"):
        build_optimizer(config, model)
    config = OptimizerConfig(name="adamw", lr=1.0, encoder_lr_scale=0.5)
    assert {group["scale"] for group in build_optimizer(config, model).param_groups} == {0.5}


def test_a_folder_says_whether_it_has_a_decoder(folder: Path) -> None:
    assert isinstance(read_size(folder), EncoderDecoderSize)
    assert read_size(folder).dim == 32


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"eos_token_id": None}, "eos_token_id: found None"),
        ({"eos_token_id": [1, 2]}, r"eos_token_id: found \[1, 2\]"),
        ({"pad_token_id": None, "decoder_start_token_id": None}, "pad_token_id: found None"),
    ],
)
def test_a_decoder_that_cannot_start_or_end_is_an_error(
    change: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=f"init: {message} in config.json"):
        PretrainedEncoderDecoder({**TINY_T5, "vocab_size": 9, **change}, dim=32)
