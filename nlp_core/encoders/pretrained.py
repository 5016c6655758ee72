"""A pretrained transformer encoder as a block of the graph.

Shape letters: W windows of a batch, L pieces in a window, B batch, T places of an example, D width.
"""

import inspect
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from jaxtyping import Bool, Int
from torch import Tensor, nn

from nlp_core.blocks.base import BLOCKS, PIECES, SEQUENCE, Block
from nlp_core.blocks.masking import Mask, Tokens, zero_padding
from nlp_core.blocks.option import PositiveInt, Probability
from nlp_core.config.base import ClosedModel
from nlp_core.data.pieces import MAX_LENGTH, WEIGHTS, PieceVocabulary
from nlp_core.data.vocabulary import Vocabulary
from nlp_core.encoders.loading import describe_misfit, load_module, silence
from nlp_core.encoders.recording import Recorded, record_attention, use_recorded_attention
from nlp_core.errors import ConfigError
from nlp_core.files import readable

DROPOUTS = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "dropout",
    "dropout_rate",
    "attention_dropout",
    "embedding_dropout",
    "mlp_dropout",
)
"""Names of the dropout probabilities in configurations of encoders."""
TWO_WAY = ("bert-generation", "xlnet")
"""Encoders that transformers lists only among the causal language models."""
LAYER_NUMBER = re.compile(r"\blayers?\.(\d+)\.")
Frozen = Literal["nothing", "embeddings", "everything"]


class LoraConfig(ClosedModel):
    """Low-rank additions to the linear maps of an encoder."""

    rank: PositiveInt
    alpha: PositiveInt
    """Additions are scaled by alpha / rank."""
    dropout: Probability = 0.0
    """Probability of a zero in the input of an addition."""


@BLOCKS.register("pretrained_encoder")
class PretrainedEncoder(Block):
    """Encode texts with a pretrained encoder: the vectors of its last layer.

    The places of the input `texts` are all pieces of the one or two texts of an example, special
    ones included; those of text_a or text_b the pieces of that text, which is read by itself. The
    places of tokens.pieces and tokens_b.pieces are the tokens, each with the vector of its first
    piece. Texts of more pieces than `max_length` are read in windows that overlap by `stride`, and
    the vector of a token comes from the window with the most context around it.

    The encoder, its weights and its tokenizer come from the folder that the experiment's `init`
    names. It can be any encoder of the library transformers.

    Args:
        config: the encoder's configuration.
        weights: folder of the pretrained weights; None: random ones.
        dim: width D of the encoder.
        num_layers: the number of first layers that are kept; null: all.
        max_length: the maximum number of pieces of a window, special ones included; a longer whole
            text is truncated.
        stride: the overlap of two windows in pieces, less than half a window; null: a quarter.
        dropout: probability of a zero in states and attention weights; null: that of the encoder.
        frozen: what is not trained: `nothing`, `embeddings` or `everything`.
        frozen_layers: the number of first layers that are not trained, with the embeddings; null:
            only `frozen` counts.
        lora: train only low-rank additions to the linear maps of layers that are not frozen:
            W + alpha / rank B A, with A [rank, in] and B [out, rank], B = 0 at first.
        checkpointing: recompute the states of a layer in the backward pass, to save memory.

    Shape: ids, segments and mask of windows [W, L], places [B, T] and mask [B, T] to [B, T, D].

    Raises:
        ConfigError: the encoder has another width or fewer layers, only reads from left to right,
            or does not support an option.

    Source: Devlin et al. 2019 (BERT), sections 3.2 and 4.2; Hu et al. 2022 (LoRA), section 4.1.
    Note: the encoder's pooling layer is left out; the model file pools.
    """

    ranks = ((PIECES,),)
    output_rank = SEQUENCE
    output_width = "dim"
    vocabulary = PieceVocabulary

    def __init__(
        self,
        config: Mapping[str, Any],  # Any: whatever the encoder's configuration holds
        weights: Path | None = None,
        *,
        dim: PositiveInt,
        num_layers: PositiveInt | None = None,
        max_length: PositiveInt = MAX_LENGTH,
        stride: PositiveInt | None = None,
        dropout: Probability | None = None,
        frozen: Frozen = "nothing",
        frozen_layers: PositiveInt | None = None,
        lora: LoraConfig | None = None,
        checkpointing: bool = False,
    ) -> None:
        super().__init__()
        self.encoder = self._build(config, weights, num_layers=num_layers, dropout=dropout)
        _check(self.encoder.config, dim, num_layers)
        allowed = inspect.signature(self.encoder.forward).parameters
        types = getattr(self.encoder.config, "type_vocab_size", 0)
        self.reads_segments = "token_type_ids" in allowed and types > 1
        if frozen != "nothing":
            words = getattr(self.encoder, "embeddings", self.encoder.get_input_embeddings())
            part = self.encoder if frozen == "everything" else words
            part.requires_grad_(False)
        if lora is not None and frozen == "everything":
            raise ConfigError(
                "lora: found with frozen: everything, which leaves no layer to add to. Leave out "
                "frozen: lora already freezes the weights of the encoder."
            )
        if lora is not None:
            _add_lora(self.encoder, lora)
        if frozen_layers is not None:
            self._freeze_layers(frozen_layers)
        if checkpointing:
            try:
                self.encoder.activation_checkpointing_enable()
            except ValueError as err:
                raise ConfigError(
                    f"checkpointing: found true, but an encoder of type "
                    f"{self.encoder.config.model_type} cannot recompute its states; leave it out."
                ) from err
        self._passes: list[Recorded] | None = None
        self._records_attention = False

    @classmethod
    def start(cls, vocabulary: Vocabulary, *dims: int, **options: Any) -> "PretrainedEncoder":
        assert isinstance(vocabulary, PieceVocabulary), type(vocabulary)
        return cls(vocabulary.config, vocabulary.weights, **options)

    @staticmethod
    def _build(config: Mapping[str, Any], weights: Path | None, **options: Any) -> Any:
        return build_encoder(config, weights, **options)

    @property
    def reader(self) -> Any:  # Any: each type of encoder has its class
        """The module that reads texts."""
        return self.encoder

    @property
    def num_layers(self) -> int:
        return int(self.encoder.config.num_hidden_layers)

    @property
    def num_heads(self) -> int:
        return int(self.encoder.config.num_attention_heads)

    @property
    def width(self) -> int:
        return int(self.encoder.config.hidden_size)

    def allow_attention(self) -> bool:
        """Prepare for recording attention; return whether this type of encoder can."""
        return use_recorded_attention(self.encoder)

    @contextmanager
    def record(self, *, attention: bool = False) -> Iterator[list[Recorded]]:
        """Yield a list to which each pass adds what its layers compute.

        Attention is only recorded after `allow_attention`.
        """
        assert self._passes is None, "a recording inside another one"
        passes: list[Recorded] = []
        self._passes = passes
        self._records_attention = attention
        try:
            yield passes
        finally:
            self._passes = None

    def find_word_table(self) -> nn.Module:
        """Return the embedding of pieces, to which positions and segments are added."""
        table: nn.Module = self.reader.get_input_embeddings()
        return table

    def count_layers_above(self) -> list[tuple[nn.Parameter, int]]:
        """Return each weight with its depth from the top.

        The depth is 0 above all layers, 1 in the last layer, N in the first of N layers and N + 1
        in the embeddings. Layers that share their weights, as in ALBERT, are a ConfigError.
        """
        number, words = self.num_layers, {id(item) for item in self.find_word_table().parameters()}
        found, has_layers = [], False
        for name, parameter in self.encoder.named_parameters():
            place = LAYER_NUMBER.search(name)
            has_layers = has_layers or place is not None
            if place is not None:
                found.append((parameter, number - int(place[1])))
            else:
                is_below = "embeddings" in name or id(parameter) in words
                found.append((parameter, number + 1 if is_below else 0))
        if not has_layers:
            raise ConfigError(
                f"pretrained_encoder: found an encoder of type {self.encoder.config.model_type}, "
                "whose layers share their weights; leave out frozen_layers of the model and "
                "layer_decay of the recipe."
            )
        return found

    def _freeze_layers(self, number: int) -> None:
        if number > self.num_layers:
            raise ConfigError(
                f"frozen_layers: found {number}, expected at most {self.num_layers}, the kept "
                "layers of the encoder."
            )
        for parameter, above in self.count_layers_above():
            if above > self.num_layers - number:
                parameter.requires_grad_(False)

    def forward(
        self,
        ids_WL: Int[Tensor, "W L"],
        segments_WL: Int[Tensor, "W L"],
        inside_WL: Bool[Tensor, "W L"],
        place_BT: Int[Tensor, "B T"],
        mask_BT: Mask,
    ) -> Tokens:
        more = {"token_type_ids": segments_WL} if self.reads_segments else {}
        found = self._read(input_ids=ids_WL, attention_mask=inside_WL.long(), **more)
        hidden_ND = found.last_hidden_state.flatten(0, 1)
        hidden_BTD = hidden_ND.index_select(0, place_BT.flatten()).unflatten(0, place_BT.shape)
        return zero_padding(hidden_BTD, mask_BT)

    def _read(self, **fields: Tensor) -> Any:  # Any: any encoder's output
        if self._passes is None:
            return self.reader(**fields)
        with record_attention(enabled=self._records_attention) as attended:
            found = self.reader(**fields, output_hidden_states=True)
        self._passes.append(Recorded(found.hidden_states, tuple(attended)))
        return found


def build_encoder(
    config: Mapping[str, Any],
    weights: Path | None,
    *,
    num_layers: int | None = None,
    dropout: float | None = None,
) -> Any:  # Any: each type of encoder has its class
    """Return the module of transformers, in float32, without a pooling layer.

    The arguments are those of `PretrainedEncoder`.

    Raises:
        ConfigError: it is a decoder, has no dropout to set, or its configuration is wrong.
        DataError: the weights are damaged, or those of another model.
    """
    # a large library that only models with a pretrained encoder need
    from transformers import AutoModel

    found = read_config(config, dropout)
    _check_direction(found)
    found.use_cache = False
    if num_layers is not None and num_layers <= found.num_hidden_layers:
        found.num_hidden_layers = num_layers
    encoder = load_module(AutoModel, found, weights)
    if getattr(encoder, "pooler", None) is not None:
        encoder.pooler = None
    return encoder


def read_config(config: Mapping[str, Any], dropout: float | None) -> Any:  # Any: of its class
    """Return a configuration of transformers, with another dropout if one is given.

    Raises:
        ConfigError: the library does not know its type or one of its values.
    """
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoConfig

    kept = {key: value for key, value in config.items() if key not in ("model_type", "dtype")}
    try:
        found = AutoConfig.for_model(config["model_type"], **kept)
    except (ValueError, TypeError, KeyError, StrictDataclassError) as err:
        raise describe_misfit(config.get("model_type"), err) from err
    if dropout is not None:
        _set_dropout(found, dropout)
    return found


def _check_direction(config: Any) -> None:  # Any: any encoder's class
    """Raise ConfigError for a model whose pieces do not see the whole text."""
    # see `build_encoder`
    from transformers.models.auto import modeling_auto as known

    model_type = config.model_type
    is_causal = (
        model_type in known.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
        and model_type not in known.MODEL_FOR_MASKED_LM_MAPPING_NAMES
        and model_type not in TWO_WAY
    )
    if is_causal or config.is_encoder_decoder or getattr(config, "is_decoder", False):
        raise ConfigError(
            f"init: found a model of type {model_type}, which generates text, expected an encoder, "
            "whose pieces see the whole text, such as BERT, RoBERTa, MPNet, ELECTRA or DeBERTa."
        )


def _set_dropout(config: Any, dropout: float) -> None:  # Any: any encoder's class
    names = [name for name in DROPOUTS if hasattr(config, name)]
    if not names:
        raise ConfigError(
            f"dropout: found {dropout}, but an encoder of type {config.model_type} has none of "
            f"{', '.join(DROPOUTS)}; leave it out."
        )
    for name in names:
        setattr(config, name, dropout)


def _add_lora(encoder: nn.Module, config: LoraConfig) -> None:
    """Freeze an encoder and add trained low-rank maps to its linear maps."""
    # as large a library as transformers, which only such models need
    from peft import LoraConfig as PeftConfig
    from peft import inject_adapter_in_model

    linear = [name for name, module in encoder.named_modules() if isinstance(module, nn.Linear)]
    peft = PeftConfig(
        r=config.rank, lora_alpha=config.alpha, lora_dropout=config.dropout, target_modules=linear
    )
    inject_adapter_in_model(peft, encoder)


def save_encoder(encoder: Any, folder: Path) -> None:  # Any: any encoder's class
    """Write the config.json and model.safetensors that `build_encoder` reads."""
    with silence(), readable(folder / WEIGHTS):
        encoder.save_pretrained(folder)


def _check(config: Any, dim: int, num_layers: int | None) -> None:  # Any: any encoder's class
    width = getattr(config, "hidden_size", None)
    if width is None:
        raise ConfigError(
            f"init: found a model of type {config.model_type}, which has no hidden_size, expected "
            "an encoder that reads only text, such as BERT, RoBERTa, MPNet, ELECTRA or DeBERTa."
        )
    if width != dim:
        raise ConfigError(
            f"dim: found {dim}, expected {width}, the width of the encoder in the experiment's "
            "init."
        )
    if num_layers is not None and config.num_hidden_layers != num_layers:
        raise ConfigError(
            f"num_layers: found {num_layers}, expected at most {config.num_hidden_layers}, the "
            "layers of the encoder in the experiment's init."
        )
