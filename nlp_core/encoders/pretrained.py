"""A pretrained transformer encoder as a block of the graph.

Shape letters: W windows of a batch, L pieces in a window, B batch, T places of an example, D width.
"""

import inspect
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from nlp_core import arithmetic
from nlp_core.blocks import BLOCKS, PIECES, SEQUENCE, Block, Shape
from nlp_core.blocks.masking import zero_padding
from nlp_core.blocks.option import PositiveInt, Probability, read_option
from nlp_core.config.base import ClosedModel
from nlp_core.data.pieces import MAX_LENGTH, PieceVocabulary
from nlp_core.data.vocabulary import Vocabulary
from nlp_core.encoders.recording import Recorded, record_attention, use_recorded_attention
from nlp_core.errors import ConfigError

DROPOUTS = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "dropout",
    "attention_dropout",
    "embedding_dropout",
    "mlp_dropout",
)
"""What encoders call the probabilities of a zero in their states and attention weights."""
TWO_WAY = ("bert-generation", "xlnet")
"""Encoders that the library transformers lists among the models that write texts alone."""
LAYER_NUMBER = re.compile(r"\blayers?\.(\d+)\.")
Frozen = Literal["nothing", "embeddings", "everything"]
"""What of an encoder is not trained."""


class LoraConfig(ClosedModel):
    """Low-rank additions to the linear maps of an encoder."""

    rank: PositiveInt
    """Rank of each addition."""
    alpha: PositiveInt
    """Additions are scaled by alpha / rank."""
    dropout: Probability = 0.0
    """Probability of a zero in what an addition reads, in [0, 1)."""


@BLOCKS.register("pretrained_encoder")
class PretrainedEncoder(Block):
    """Read texts with a pretrained encoder: the vectors of its last layer.

    On the input `texts` each piece of the one or two texts of an example is a place, the special
    ones among them; on text_a or text_b each piece of one of two texts, which is read by itself. On
    tokens.pieces and tokens_b.pieces each token is a place, and has the vector of its first piece;
    a text of more pieces than `max_length` is read in windows that overlap by `stride`, and a token
    is looked up in the window that shows most of what is around it.

    Which encoder it is, its weights and its tokenizer come from the folder that the experiment's
    `init` names: any encoder of the library transformers.

    Args:
        config: the encoder's configuration.
        weights: folder of the pretrained weights; None leaves random ones.
        dim: width D of the encoder.
        num_layers: the first layers that are kept; None: all.
        max_length: the most pieces of a window, the special ones among them; a longer whole text is
            cut.
        stride: the pieces that two windows have in common, less than half of one; None: a quarter.
        dropout: probability of a zero in states and attention weights; None: the encoder's own.
        frozen: what is not trained: `nothing`, `embeddings` or `everything`.
        frozen_layers: the first layers that are not trained, and the embeddings with them; None:
            what `frozen` says.
        lora: train low-rank additions to all linear maps of the encoder and leave the rest as it
            is: W + alpha / rank B A, with A [rank, in] and B [out, rank], B = 0 at first; those of
            frozen layers stay as they are. None: none.
        checkpointing: compute the states of a layer again in the backward pass, to save memory.

    Shape: ids, segments and mask of windows [W, L], places [B, T] and mask [B, T] to [B, T, D].

    Raises:
        ConfigError: the encoder has another width or fewer layers, reads from left to right alone,
            or is of a sort that has no such option.

    Source: Devlin et al. 2019 (BERT), sections 3.2 and 4.2; Hu et al. 2022 (LoRA), section 4.1.
    Note: the encoder's own pooling layer is left out; a model says itself how it pools.
    """

    ranks = ((PIECES,),)
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
        self.encoder = build_encoder(config, weights, num_layers=num_layers, dropout=dropout)
        _check(self.encoder.config, dim, num_layers)
        allowed = inspect.signature(self.encoder.forward).parameters
        types = getattr(self.encoder.config, "type_vocab_size", 0)
        self.reads_segments = "token_type_ids" in allowed and types > 1
        if frozen != "nothing":
            words = getattr(self.encoder, "embeddings", self.encoder.get_input_embeddings())
            part = self.encoder if frozen == "everything" else words
            part.requires_grad_(False)
        if lora is not None:
            _add_lora(self.encoder, lora)
        if frozen_layers is not None:
            self._freeze_layers(frozen_layers)
        if checkpointing:
            self._recompute()
        self._passes: list[Recorded] | None = None
        self._records_attention = False

    @classmethod
    def start(cls, vocabulary: Vocabulary, **options: Any) -> "PretrainedEncoder":
        """Make the block from the encoder that the vocabulary was read from."""
        assert isinstance(vocabulary, PieceVocabulary), type(vocabulary)
        return cls(vocabulary.config, vocabulary.weights, **options)

    @property
    def num_layers(self) -> int:
        """The transformer layers."""
        return int(self.encoder.config.num_hidden_layers)

    @property
    def num_heads(self) -> int:
        """The attention heads of a layer."""
        return int(self.encoder.config.num_attention_heads)

    @property
    def width(self) -> int:
        """Width D of the hidden states."""
        return int(self.encoder.config.hidden_size)

    def allow_attention(self) -> bool:
        """Let `record` keep the attention as well; say whether this sort of encoder can."""
        return use_recorded_attention(self.encoder)

    @contextmanager
    def record(self, *, attention: bool = False) -> Iterator[list[Recorded]]:
        """Keep what the layers compute in the passes inside; outputs do not change.

        Args:
            attention: whether to keep the attention too; `allow_attention` comes before.

        Yields:
            A list that each pass adds to.
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
        """Return the table of the pieces' vectors, to which positions and segments are added."""
        table: nn.Module = self.encoder.get_input_embeddings()
        return table

    def count_layers_above(self) -> list[tuple[nn.Parameter, int]]:
        """Return each weight with the number of layers from the top down to it, its own included.

        Those of the last layer have 1, those of the first of N layers N, embeddings N + 1; what
        comes behind all layers has 0.

        Raises:
            ConfigError: the layers share their weights, as those of ALBERT do.
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
                f"pretrained_encoder: found an encoder of the sort "
                f"{self.encoder.config.model_type}, whose layers have no weights of their own to "
                "tell one from the next by, as frozen_layers of a model and layer_decay of a "
                "recipe do; leave them out."
            )
        return found

    def _freeze_layers(self, number: int) -> None:
        if number > self.num_layers:
            raise ConfigError(
                f"frozen_layers: found {number}, expected at most {self.num_layers}, the layers of "
                "the encoder that are kept."
            )
        for parameter, above in self.count_layers_above():
            if above > self.num_layers - number:
                parameter.requires_grad_(False)

    def _recompute(self) -> None:
        try:
            self.encoder.activation_checkpointing_enable()
        except ValueError as err:
            raise ConfigError(
                f"checkpointing: found true, but an encoder of the sort "
                f"{self.encoder.config.model_type} cannot compute its states again; leave it out."
            ) from err

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        """Return a sequence of width `dim`."""
        return Shape(SEQUENCE, read_option(cls, options, "dim", int))

    def forward(
        self,
        ids_WL: Int[Tensor, "W L"],
        segments_WL: Int[Tensor, "W L"],
        inside_WL: Bool[Tensor, "W L"],
        place_BT: Int[Tensor, "B T"],
        mask_BT: Bool[Tensor, "B T"],
    ) -> Float[Tensor, "B T D"]:
        """Return the vectors of all places, 0 at padding."""
        more = {"token_type_ids": segments_WL} if self.reads_segments else {}
        found = self._read(input_ids=ids_WL, attention_mask=inside_WL.long(), **more)
        hidden_ND = found.last_hidden_state.flatten(0, 1)
        hidden_BTD = hidden_ND.index_select(0, place_BT.flatten()).unflatten(0, place_BT.shape)
        return zero_padding(hidden_BTD, mask_BT)

    def _read(self, **fields: Tensor) -> Any:  # Any: any encoder's output
        if self._passes is None:
            return self.encoder(**fields)
        with record_attention(enabled=self._records_attention) as attended:
            found = self.encoder(**fields, output_hidden_states=True)
        self._passes.append(Recorded(found.hidden_states, tuple(attended)))
        return found


def build_encoder(
    config: Mapping[str, Any],
    weights: Path | None,
    *,
    num_layers: int | None = None,
    dropout: float | None = None,
) -> Any:  # Any: a class of its own for each sort of encoder
    """Return the module of transformers, in float32, without a pooling layer.

    Args:
        config: the encoder's configuration.
        weights: folder of the pretrained weights; None leaves random ones.
        num_layers: the first layers that are kept; None: all.
        dropout: probability of a zero; None: the encoder's own.

    Raises:
        ConfigError: it is a decoder, or has no dropout to set.
    """
    # A large library that only models with a pretrained encoder need.
    from transformers import AutoConfig, AutoModel

    arithmetic.install()  # here too, since an encoder is also used without a graph
    kept = {key: value for key, value in config.items() if key not in ("model_type", "dtype")}
    found = AutoConfig.for_model(config["model_type"], **kept)
    _refuse_decoder(found)
    found.use_cache = False
    if num_layers is not None and num_layers <= found.num_hidden_layers:
        found.num_hidden_layers = num_layers
    if dropout is not None:
        _set_dropout(found, dropout)
    if weights is None:
        encoder: Any = AutoModel.from_config(found)  # type: ignore[no-untyped-call]
    else:
        # It lists the layers that were left out, which the model file asked for.
        with _quiet():
            encoder = AutoModel.from_pretrained(weights, config=found, dtype=torch.float32)
    if getattr(encoder, "pooler", None) is not None:
        encoder.pooler = None
    return encoder


def _refuse_decoder(config: Any) -> None:  # Any: any encoder's class
    """Refuse what does not let each piece see the whole text."""
    # see `build_encoder`
    from transformers.models.auto import modeling_auto as known

    sort = config.model_type
    is_causal = (
        sort in known.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
        and sort not in known.MODEL_FOR_MASKED_LM_MAPPING_NAMES
        and sort not in TWO_WAY
    )
    if is_causal or config.is_encoder_decoder:
        raise ConfigError(
            f"init: found a model of the sort {sort}, which writes texts and reads them from left "
            "to right, expected an encoder, in which each piece sees the whole text, such as BERT, "
            "RoBERTa, MPNet, ELECTRA or DeBERTa."
        )


def _set_dropout(config: Any, dropout: float) -> None:  # Any: any encoder's class
    """Set what an encoder calls the probabilities of a zero in its states and attention weights."""
    names = [name for name in DROPOUTS if hasattr(config, name)]
    if not names:
        raise ConfigError(
            f"dropout: found {dropout}, but an encoder of the sort {config.model_type} has none "
            f"of {', '.join(DROPOUTS)} to set; leave it out."
        )
    for name in names:
        setattr(config, name, dropout)


def _add_lora(encoder: nn.Module, config: LoraConfig) -> None:
    """Freeze an encoder and put trained additions of low rank beside its linear maps."""
    # As large a library as transformers, which only such models need.
    from peft import LoraConfig as PeftConfig
    from peft import inject_adapter_in_model

    linear = [name for name, module in encoder.named_modules() if isinstance(module, nn.Linear)]
    peft = PeftConfig(
        r=config.rank,
        lora_alpha=config.alpha,
        lora_dropout=config.dropout,
        target_modules=linear,
    )
    inject_adapter_in_model(peft, encoder)


def save_encoder(encoder: Any, folder: Path) -> None:  # Any: any encoder's class
    """Write config.json and model.safetensors, as `build_encoder` reads them."""
    with _quiet():
        encoder.save_pretrained(folder)


@contextmanager
def _quiet() -> Iterator[None]:
    """Let the library draw no bar and write no warning."""
    from transformers.utils import logging

    level = logging.get_verbosity()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    yield
    logging.set_verbosity(level)
    logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def _check(config: Any, dim: int, num_layers: int | None) -> None:  # Any: any encoder's class
    if config.hidden_size != dim:
        raise ConfigError(
            f"dim: found {dim}, expected {config.hidden_size}, the width of the encoder that the "
            "experiment's init names."
        )
    if num_layers is not None and config.num_hidden_layers != num_layers:
        raise ConfigError(
            f"num_layers: found {num_layers}, expected at most {config.num_hidden_layers}, the "
            "layers of the encoder that the experiment's init names."
        )
