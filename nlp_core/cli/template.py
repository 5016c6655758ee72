"""The model files that `reglue new` writes: a net, its heads, and how to train it."""

import json
from importlib.resources import files
from typing import Any

from nlp_core.data.pieces import MAX_LENGTH
from nlp_core.encoders.folder import EncoderDecoderSize, EncoderSize
from nlp_core.kinds import (
    CLASSIFICATION,
    DIALOGUE,
    DOCUMENT,
    GENERATION,
    HISTORY,
    INTENT_SLOTS,
    MULTI_LABEL,
    PAIR_CLASSIFICATION,
    PAIR_REGRESSION,
    PARSING,
    RANKING,
    REGRESSION,
    RETRIEVAL,
    SENTENCES,
    SPAN,
    TAGGING,
)

MULTIPLE_CHOICE = "multiple_choice"
TEMPLATES = {
    "classification": CLASSIFICATION,
    "multi_label": MULTI_LABEL,
    "regression": REGRESSION,
    "matching": PAIR_CLASSIFICATION,
    "similarity": PAIR_REGRESSION,
    "ranking": RANKING,
    MULTIPLE_CHOICE: RANKING,
    "retrieval": RETRIEVAL,
    "tagging": TAGGING,
    "intent_slots": INTENT_SLOTS,
    "dialogue": DIALOGUE,
    "document": DOCUMENT,
    "parsing": PARSING,
    "generation": GENERATION,
    "reading": SPAN,
}
"""The kind of data of each template."""
LEARNT = {
    "classification": "One label per text",
    "multi_label": "Several labels per text",
    "regression": "A number per text",
    "matching": "A label per pair of texts",
    "similarity": "A number per pair of texts",
    "ranking": "The candidates that answer a question",
    "retrieval": "Which passages answer a query, of all passages",
    MULTIPLE_CHOICE: "The candidate of a row that answers its question",
    "tagging": "A tag per word",
    "intent_slots": "A label per sentence and a tag per word",
    "dialogue": "A label per turn of a dialogue and a tag per word, with the earlier turns",
    "document": "A label per sentence of a document",
    "parsing": "The tree of intents and slots of a sentence",
    "generation": "A text that is written for a text",
    "reading": "The answer to a question, as a span of a context",
}
NOTES = [
    "data: how files are read; training: how the net is trained. Override any value by its path: "
    "`reglue train FILE --set training.epochs=20 --set layers.lstm.hidden_dim=64`.",
    "`reglue blocks` and `reglue heads` list other blocks and heads with their options; `reglue "
    "show FILE --mermaid` draws this net. JSON has no comments; write them here.",
]
ENCODER_NOTES = [
    "Train it with --init and the encoder that it was made for; dim is the encoder's width. "
    "Override any value by its path: `reglue train FILE --set layers.encoder.max_length=256`, the "
    "pieces read of a text.",
    NOTES[1],
]
MOST_ENCODER_EPOCHS = 10
HEAD_OF = {
    "regression": "regression",
    "similarity": "regression",
    "multi_label": "multi_label",
    MULTIPLE_CHOICE: "listwise_ranking",
}
"""The head of a template; classification of all others."""
TREE = {"tree": {"head": "rnng", "inputs": ["out"], "dropout": 0.3}}
TEXT = {"text": {"head": "seq2seq", "inputs": ["out"], "beam": 3, "dropout": 0.3}}
TOWERS = {"label": {"head": "retrieval", "inputs": ["query", "passage"]}}
JOINT = {"intent_slots": "tokens", "dialogue": "dialogue"}
"""Templates of a label and tags, with their nets."""
TAGGED = {"tagging": "tokens", "document": "document"}
"""Templates of nothing but tags, with their nets."""
WRITING = {"parsing": TREE, "generation": TEXT}
ENDS = {"parsing": "a parser by shift and reduce", "generation": "a decoder that copies words"}
"""What the heads of `WRITING` are, for the description of a model file."""
LABEL_TEXT = {"label": {"head": "label_text", "inputs": ["encoder"]}}
PIECES = {"text": {"head": "pretrained_decoder", "inputs": ["encoder"], "beam": 3}}
WRITTEN: dict[str, dict[str, Any]] = {
    "classification": LABEL_TEXT,
    "matching": LABEL_TEXT,
    "generation": PIECES,
}
"""The heads of a template whose encoder has a decoder, such as T5."""
BATCH_SIZES = ((10_000, 32), (1_000, 16), (0, 8))
"""Minimum of rows for each batch size."""
WANTED_STEPS = 2_000
MIN_EPOCHS, MAX_EPOCHS = 3, 40
STEPS_A_VALIDATION = 20_000
POOL = {"name": "best", "block": "pooling", "inputs": ["out"], "pool": "max"}


def build_template(
    name: str, data: dict[str, Any], rows: int, encoder: EncoderSize | None = None
) -> dict[str, Any]:
    """Return a model file.

    Args:
        data: its section on how files are read.
        rows: about how many training examples there are.
        encoder: size of the pretrained encoder that it starts from; None: it starts from words.
    """
    training = fit_training(rows)
    if encoder is None:
        lists = files("nlp_core.cli").joinpath("templates.json").read_text(encoding="utf-8")
        name_of_net, heads = _choose_net(name)
        parts: dict[str, Any] = json.loads(lists)[name_of_net]
        if name in JOINT:
            parts["layers"].append(POOL)
        optimizer = {
            "name": "adam",
            "lr": 0.003 if name_of_net in ("tokens", "dialogue", "document") else 0.001,
        }
        notes, clip_norm, description = NOTES, 5.0, parts.pop("description")
        if name_of_net == "tokens":
            description += f", {ENDS.get(name, 'a CRF')}"
    else:
        parts, heads = _build_encoder_net(name, encoder)
        decay = {"weight_decay": 0.01, "decayed": "matrices"}
        lr = 0.0003 if isinstance(encoder, EncoderDecoderSize) else 0.00005
        optimizer = {"name": "adamw", "lr": lr, **decay}
        notes, clip_norm, description = ENCODER_NOTES, 1.0, "a pretrained encoder, fine-tuned"
        training["epochs"] = min(training["epochs"], MOST_ENCODER_EPOCHS)
    return {
        "description": f"{LEARNT[name]}: {description}",
        "source": "a template of reglue new",
        "notes": notes,
        **parts,
        "heads": heads,
        "data": data,
        "training": {
            "optimizer": optimizer,
            "schedule": {"name": "warmup_linear", "warmup": 0.1},
            **training,
            "clip_norm": clip_norm,
        },
    }


def _build_encoder_net(name: str, encoder: EncoderSize) -> tuple[dict[str, Any], dict[str, Any]]:
    kind = TEMPLATES[name]
    size = {"dim": encoder.dim, "max_length": min(encoder.positions, MAX_LENGTH)}
    if kind.is_searched:
        return _build_encoder_towers(size), TOWERS
    if isinstance(encoder, EncoderDecoderSize) and name in WRITTEN:
        layer = {"name": "encoder", "block": "pretrained_encoder_decoder", "inputs": ["texts"]}
        return {"inputs": {"texts": "texts"}, "layers": [layer | size]}, WRITTEN[name]
    has_words = kind.writes_text or not kind.texts
    column = {"reading": "tokens_b.pieces"}.get(name, "tokens.pieces" if has_words else "texts")
    layers: list[dict[str, Any]] = [
        {"name": "encoder", "block": "pretrained_encoder", "inputs": ["texts"], **size}
    ]
    if not has_words:
        pooled = {"name": "pooled", "block": "pooling", "inputs": ["encoder"], "pool": "first"}
        layers.append(pooled)
    inner = layers[-1]["name"]
    layers.append({"name": "out", "block": "dropout", "inputs": [inner], "p": 0.1})
    inputs = {"texts": column}
    if kind.has_history:
        inputs["history"] = HISTORY
        past = {"name": "past", "block": "history_encoder", "inputs": ["history"], "dim": 100}
        layers[-1]["name"] = "drop"
        both = {"name": "out", "block": "append_vector", "inputs": ["drop", "past"]}
        layers += [past, both]
    if kind.has_sentences:
        inputs["sizes"] = SENTENCES
        layers[-1]["name"] = "drop"
        read = {"name": "sentence", "block": "sentence_encoder", "inputs": ["sizes", "drop"]}
        context = {"name": "out", "block": "bilstm", "inputs": ["sentence"], "hidden_dim": 100}
        layers += [read | {"hidden_dim": 100}, context]
    if name in JOINT:
        layers.append(POOL)
    tags = {"tags": {"head": "tagging", "inputs": ["out"]}}
    label = {"head": HEAD_OF.get(name, "classification"), "inputs": ["out"]}
    heads: dict[str, Any] = {"label": label}
    if name == "reading":
        heads = {"answer": {"head": "span", "inputs": ["out", "out"]}}
    elif name in WRITING:
        heads = WRITING[name]
    elif has_words:
        heads = tags if name in TAGGED else {"label": {**label, "inputs": ["best"]}, **tags}
    return {"inputs": inputs, "layers": layers}, heads


def _build_encoder_towers(size: dict[str, int]) -> dict[str, Any]:
    return {
        "inputs": {"first": "text_a", "second": "text_b"},
        "layers": [
            {"name": "encoder", "block": "pretrained_encoder", "inputs": ["first"], **size},
            {"name": "encoder_b", "block": "encoder", "inputs": ["second"]},
            {"name": "query", "block": "pooling", "inputs": ["encoder"], "pool": "mean"},
            {"name": "passage", "block": "pooling", "inputs": ["encoder_b"], "pool": "mean"},
        ],
    }


def fit_training(rows: int) -> dict[str, int]:
    """Return the keys of `training` that depend on the number of examples.

    Few examples get small batches and many epochs, so that a net sees a few thousand batches; many
    get few epochs, with several validations in each.
    """
    batch_size = next(size for least, size in BATCH_SIZES if rows >= least)
    epochs = min(max(round(WANTED_STEPS * batch_size / rows), MIN_EPOCHS), MAX_EPOCHS)
    validations = max(rows // batch_size // STEPS_A_VALIDATION, 1)
    return {
        "batch_size": batch_size,
        "epochs": epochs,
        "validations_per_epoch": validations,
        "patience": max(epochs // 3, MIN_EPOCHS, validations),
    }


def _choose_net(name: str) -> tuple[str, dict[str, Any]]:
    tags = {"tags": {"head": "crf_tagging", "inputs": ["out"]}}
    if name in TAGGED:
        return TAGGED[name], tags
    if name in WRITING:
        return "tokens", WRITING[name]
    if name in JOINT:
        label = {"head": "classification", "inputs": ["best"], "dropout": 0.3}
        return JOINT[name], {"label": label, **tags}
    if TEMPLATES[name].is_searched:
        return "towers", TOWERS
    if name == "reading":
        return "question", {"answer": {"head": "span", "inputs": ["begins", "ends"]}}
    if name in ("matching", "similarity", "ranking", MULTIPLE_CHOICE):
        net, options = "pair", {"inputs": ["pair"], "hidden_dims": [100]}
    else:
        net, options = "text", {"inputs": ["text"]}
    return net, {"label": {"head": HEAD_OF.get(name, "classification"), **options, "dropout": 0.3}}
