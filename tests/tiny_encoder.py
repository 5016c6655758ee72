"""A pretrained encoder of a few hundred weights, written as the preprocess stage writes one."""

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoConfig, AutoModel

from nlp_core.files import digest_file, write_json

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film", "the", "##s", "a"]
PIECES += ["great", "fine", "nice", "poor", "sad", "awful"]
TINY_ENCODER: dict[str, Any] = {
    "model_type": "bert",
    "hidden_size": 8,
    "intermediate_size": 12,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "max_position_embeddings": 16,
    "vocab_size": len(PIECES),
    "type_vocab_size": 2,
    "pad_token_id": 0,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


def make_tokenizer() -> Tokenizer:
    """Return a word-piece tokenizer of `PIECES` that frames texts as BERT does."""
    ids = {piece: idx for idx, piece in enumerate(PIECES)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return tokenizer


def make_byte_tokenizer() -> Tokenizer:
    """Return a byte-level tokenizer of words, as RoBERTa has one: `Ġ` is a space before a word."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["a good film , the bad film . Good films"] * 5, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), add_prefix_space=False
    )
    return tokenizer


def write_encoder(root: Path) -> Path:
    """Write a processed encoder and return its folder."""
    folder = root / "data/processed/tiny_encoder"
    folder.mkdir(parents=True)
    tokenizer = json.loads(make_tokenizer().to_str())
    write_json(folder / "tokenizer.json", tokenizer)
    kept = {key: value for key, value in TINY_ENCODER.items() if key != "model_type"}
    torch.manual_seed(5)
    AutoModel.from_config(AutoConfig.for_model("bert", **kept)).save_pretrained(folder)
    files = {item.name: digest_file(item) for item in sorted(folder.iterdir())}
    manifest = {"task": folder.name, "kind": "encoder", "model_type": "bert", "files": files}
    write_json(folder / "manifest.json", manifest)
    return folder
