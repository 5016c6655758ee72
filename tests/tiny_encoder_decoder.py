"""A T5 of a few thousand random weights, whose tokenizer is learned on the texts of a test."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoConfig, AutoModelForSeq2SeqLM

from nlp_core.files import write_json

SPECIAL = ["<pad>", "</s>", "<unk>"]
TINY_T5: dict[str, Any] = {
    "model_type": "t5",
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_heads": 4,
    "dropout_rate": 0.0,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "decoder_start_token_id": 0,
}


def learn_tokenizer(texts: Iterable[str], vocab_size: int = 80) -> Tokenizer:
    """Return a tokenizer with marked spaces that ends a text as T5 does."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=SPECIAL, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    return tokenizer


def write_encoder_decoder(folder: Path, texts: Iterable[str], **values: Any) -> Path:
    """Write config.json, model.safetensors and tokenizer.json, and return their folder."""
    tokenizer = learn_tokenizer(texts)
    config = {**TINY_T5, **values, "vocab_size": tokenizer.get_vocab_size()}
    torch.manual_seed(5)
    found = AutoConfig.for_model(config.pop("model_type"), **config)
    AutoModelForSeq2SeqLM.from_config(found).save_pretrained(folder)
    write_json(folder / "tokenizer.json", json.loads(tokenizer.to_str()))
    return folder
