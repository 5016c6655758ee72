"""A pretrained encoder-decoder as a block: its encoder is a layer, its decoder writes for heads.

Shape letters: B batch, T pieces that are read, S pieces that are written, D width, V vocabulary.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nlp_core.blocks.base import BLOCKS
from nlp_core.blocks.masking import Mask, Tokens
from nlp_core.blocks.option import PositiveInt, Probability
from nlp_core.data.pieces import MAX_LENGTH
from nlp_core.encoders.loading import load_module
from nlp_core.encoders.pretrained import PretrainedEncoder, read_config
from nlp_core.errors import ConfigError


@BLOCKS.register("pretrained_encoder_decoder")
class PretrainedEncoderDecoder(PretrainedEncoder):
    """Encode whole texts with the encoder of a pretrained encoder-decoder, such as T5.

    Its decoder writes for a head `pretrained_decoder` or `label_text`, which reads this layer. Both
    start from the folder that the experiment's `init` names, with config.json, model.safetensors
    and tokenizer.json. It can be any encoder-decoder of the library transformers that reads text,
    such as T5, mT5 or BART.

    Shape: ids, segments and mask of windows [W, L], places [B, T] and mask [B, T] to [B, T, D].

    Raises:
        ConfigError: it has another width, has no decoder that generates text, or lacks the id
            of the piece that ends a text or of the one that starts it.

    Source: Raffel et al. 2020 (T5), section 2.1.
    """

    def __init__(
        self,
        config: Mapping[str, Any],  # Any: whatever the configuration holds
        weights: Path | None = None,
        *,
        dim: PositiveInt,
        max_length: PositiveInt = MAX_LENGTH,
        dropout: Probability | None = None,
    ) -> None:
        super().__init__(config, weights, dim=dim, max_length=max_length, dropout=dropout)
        found = self.encoder.config
        self.end = _require_id(found, "eos_token_id")
        # as T5, whose texts start with padding
        start = getattr(found, "decoder_start_token_id", None)
        self.first = _require_id(
            found, "pad_token_id" if start is None else "decoder_start_token_id"
        )
        self.register_state_dict_post_hook(_leave_out_copies)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(_add_copies)  # type: ignore[no-untyped-call]

    @staticmethod
    def _build(config: Mapping[str, Any], weights: Path | None, **options: Any) -> Any:
        # a large library that only such models need
        from transformers import AutoModelForSeq2SeqLM
        from transformers.models.auto.modeling_auto import (
            MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES as KNOWN,
        )

        found = read_config(config, options["dropout"])
        if found.model_type not in KNOWN:
            raise ConfigError(
                f"init: found a model of type {found.model_type}, expected an encoder-decoder that "
                "generates text, such as T5, mT5 or BART; or read it as a pretrained_encoder."
            )
        return load_module(AutoModelForSeq2SeqLM, found, weights)

    @property
    def reader(self) -> Any:
        return self.encoder.get_encoder()

    @property
    def copies(self) -> dict[str, str]:
        """The weights that are stored under another name, by their name."""
        found = self.encoder.all_tied_weights_keys.items()
        return {f"encoder.{copy}": f"encoder.{name}" for copy, name in found}

    def count_layers_above(self) -> list[tuple[nn.Parameter, int]]:
        raise ConfigError(
            "pretrained_encoder_decoder: found layer_decay in the recipe, expected one learning "
            "rate for the encoder and the decoder; leave it out."
        )

    def build_cache(self) -> Any:  # Any: of the library
        from transformers import DynamicCache, EncoderDecoderCache

        return EncoderDecoderCache(DynamicCache(), DynamicCache())

    def rate(
        self, x_BTD: Tokens, mask_BT: Mask, before_BS: Int[Tensor, "B S"], cache: Any = None
    ) -> Float[Tensor, "B S V"]:
        """Return the log probability of each piece; see `PieceDecoder` of the heads."""
        found = self.encoder(
            encoder_outputs=(x_BTD,),
            attention_mask=mask_BT.long(),
            decoder_input_ids=torch.where(before_BS < 0, self.first, before_BS),
            past_key_values=cache,
            use_cache=cache is not None,
        )
        log_BSV: Tensor = found.logits.log_softmax(-1)
        return log_BSV


def _require_id(config: Any, name: str) -> int:  # Any: any encoder-decoder's class
    found = getattr(config, name, None)
    if not isinstance(found, int):
        raise ConfigError(
            f"init: {name}: found {found} in config.json, expected the id of one piece; set it."
        )
    return found


def _leave_out_copies(
    block: nn.Module, state: dict[str, Tensor], prefix: str, metadata: object
) -> None:
    assert isinstance(block, PretrainedEncoderDecoder), type(block)
    for copy in block.copies:
        state.pop(prefix + copy, None)


def _add_copies(block: nn.Module, state: dict[str, Tensor], prefix: str, *rest: object) -> None:
    assert isinstance(block, PretrainedEncoderDecoder), type(block)
    for copy, name in block.copies.items():
        if prefix + name in state:
            state[prefix + copy] = state[prefix + name]
