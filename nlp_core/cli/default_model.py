"""The model that `reglue train FILE` trains on a data file: guess, choose and explain.

It starts from the best that is at hand: a sentence encoder, else word vectors, else nothing.
"""

import argparse
import json
import logging
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from nlp_core.cli.output import join_command
from nlp_core.cli.template import MULTIPLE_CHOICE, TEMPLATES, build_template
from nlp_core.cli.training_files import (
    change_guess,
    change_model,
    list_assignments,
    list_paths,
)
from nlp_core.cli.training_time import MINUTES, PIECES_A_WORD, SAMPLE, fit_time
from nlp_core.config.base import read_mapping
from nlp_core.config.user_data import DataConfig
from nlp_core.data.guess import count_labels, count_rows, guess_data
from nlp_core.data.kind_guess import KindGuess, guess_kind
from nlp_core.data.readers.user import read_examples
from nlp_core.data.token_guess import CHARACTERS, Guess
from nlp_core.encoders.folder import (
    ENCODER_FILES,
    TOKENIZER,
    EncoderDecoderSize,
    find_encoder,
    read_size,
)
from nlp_core.errors import UsageError
from nlp_core.files import MANIFEST
from nlp_core.prediction.trained_folder import MODEL, is_trained

log = logging.getLogger(__name__)

ENCODER = Path("data/processed/minilm")
VECTORS = Path("data/processed/glove")
ENCODER_LR = 1e-4
HEAD_LR, MANY_LABELS = 1e-3, 20
"""Labels from which on the head must learn faster than the encoder, to know them all in time."""
FEW_EXAMPLES, MOST_FEW_LABELS = 16, 500
"""Examples of a label, on average, up to which pairs train the encoder better than labels."""
FEW_BATCH, FEW_EPOCHS = 16, 20
MOST_PIECES = 3.0
"""Pieces of a word, on average, above which an encoder is of another language."""
NOTHING = (
    "no pretrained weights or vectors are at hand",
    "`python -m stages.preprocess minilm` fetches a sentence encoder, which does better; or name "
    "one with --init ENCODER.",
)
FOREIGN = (
    "what is at hand is of another language",
    "Name an encoder of this language with --init ENCODER, or word vectors with --vectors FILE.",
)


def choose_model(options: argparse.Namespace) -> dict[str, Any]:  # Any: JSON
    """Guess the columns of the data file, choose a model, log both, and return the model's content.

    The data become `train` of the options; what the model starts from `init` or `vectors`.

    Raises:
        DataError: the file has no columns of the kind, or the encoder is missing.
    """
    path: Path = options.file
    found = None if options.kind else guess_kind(path)
    template = options.kind or _find_template(found)
    assignments = list_assignments(options)
    guess = guess_data(
        path,
        TEMPLATES[template],
        has_choices=template == MULTIPLE_CHOICE,
        change=partial(change_guess, assignments=assignments, where=str(path)),
    )
    rows = count_rows(path, guess.data)
    init, vectors, reason = _choose_start(options, guess.data)
    encoder = read_size(find_encoder(init)) if init else None
    content = build_template(template, guess.section, rows, encoder)
    if encoder is not None:
        writes = isinstance(encoder, EncoderDecoderSize)
        has_labels = template == "classification" and not writes
        labels = count_labels(path, guess.data) if has_labels else 0
        is_few = rows <= FEW_EXAMPLES * min(labels, MOST_FEW_LABELS)
        if not writes:
            _fit_encoder(content, is_few=is_few)
        given = list_paths(options)
        if labels >= MANY_LABELS and not is_few and "training.optimizer.lr" not in given:
            rates = {"lr": HEAD_LR, "encoder_lr_scale": ENCODER_LR / HEAD_LR}
            content["training"]["optimizer"] |= rates
        change_model(content, assignments)  # the steps that fit into the time depend on it
        if "training.epochs" not in given:
            minutes = options.minutes or MINUTES
            fit_time(content, path, guess.data, rows, minutes=minutes, given=given)
        reason += "; few examples of a label, so it learns from pairs" if is_few else ""
    if vectors is not None:
        table, dim = _choose_table(vectors)
        for layer in content["layers"]:
            if layer["block"] == "word_embedding":
                layer |= {"vectors": table, "dim": dim}
    _show(path, template, found, guess, f"{content['description']}  ({reason})")
    if init is None and vectors is None and options.vectors is None:
        why, remedy = NOTHING if reason == NOTHING[0] else FOREIGN
        log.warning("%s, so the model starts from random word vectors. %s", why, remedy)
    options.train, options.init = path, init
    options.vectors = options.vectors or vectors
    return content


def _fit_encoder(content: dict[str, Any], *, is_few: bool) -> None:  # Any: JSON
    """Set what serves sentence encoders: their mean is what they were trained with."""
    training = content["training"]
    training["optimizer"]["lr"] = ENCODER_LR
    if is_few:
        training |= {"few_shot": True, "batch_size": FEW_BATCH, "epochs": FEW_EPOCHS}
    for layer in content["layers"]:
        if layer["name"] == "pooled":
            layer["pool"] = "mean"
        elif layer["name"] == "encoder":
            layer["frozen"] = "embeddings"  # half of the weights of a small encoder


def _find_template(found: KindGuess | None) -> str:
    assert found is not None
    if found.has_choices:
        return MULTIPLE_CHOICE
    return next(name for name, kind in TEMPLATES.items() if kind == found.kind)


class _Start(NamedTuple):
    init: str | None
    vectors: Path | None
    reason: str


def _choose_start(options: argparse.Namespace, data: DataConfig) -> _Start:
    if options.init:
        init = Path(options.init)
        if is_trained(init):
            again = join_command(["train", init / MODEL, "--train", options.file, "--init", init])
            raise UsageError(
                f"--init {init}: found a trained model, expected an encoder; to continue its "
                f"training: {again}."
            )
        return _Start(options.init, None, f"{options.init}, from --init")
    if options.vectors:
        folder = options.vectors if (options.vectors / MANIFEST).is_file() else None
        return _Start(None, folder, f"{options.vectors}, from --vectors")
    if all((ENCODER / name).is_file() for name in ENCODER_FILES):
        if (pieces := _count_pieces_a_word(options.file, data)) > MOST_PIECES:
            reason = f"{ENCODER} cuts a word into {pieces:.1f} pieces: it is of another language"
            return _Start(None, None, reason)
        return _Start(str(ENCODER), None, f"{ENCODER} is at hand")
    if (VECTORS / MANIFEST).is_file():
        return _Start(None, VECTORS, f"the vectors of {VECTORS} are at hand, no encoder is")
    return _Start(None, None, NOTHING[0])


def _count_pieces_a_word(path: Path, data: DataConfig) -> float:
    """Return the pieces of a word of the first rows; an unknown one counts as its letters."""
    from tokenizers import Tokenizer  # few commands need it

    if data.kind.has_passages:
        return PIECES_A_WORD
    if data.tokens == CHARACTERS:  # an encoder of another language has pieces of single ones too
        data = data.model_copy(update={"tokens": "spaces"})
    first = islice(read_examples(path, data, labelled=False), SAMPLE)
    words = [word for example in first for text in example.texts for word in text]
    tokenizer = Tokenizer.from_file(str(ENCODER / TOKENIZER))
    tokenizer.no_padding()
    unknown = tokenizer.token_to_id("[UNK]")
    found = [item.ids for item in tokenizer.encode_batch(words, add_special_tokens=False)]
    pairs = zip(words, found, strict=True)
    sizes = [len(word) if unknown in ids else len(ids) for word, ids in pairs]
    return fmean(sizes or [PIECES_A_WORD])


def _choose_table(folder: Path) -> tuple[str, int]:
    """Return name and width of the widest table of vectors."""
    tables = read_mapping(folder / MANIFEST)["tables"]
    name = max(tables, key=lambda item: int(tables[item]["dim"]))
    return name, int(tables[name]["dim"])


def _show(path: Path, template: str, found: KindGuess | None, guess: Guess, model: str) -> None:
    """Log what was guessed, with what else it could be."""
    reason = "from --kind" if found is None else found.reason
    if found is not None and found.doubt:
        reason = f"NOT SURE: {found.doubt}"
    log.info("%s: change a guess with --kind or --set data.KEY=VALUE", path)
    log.info("  kind = %s  (%s)", template, reason)
    for key, value in guess.section.items():
        if key not in ("kind", "format") and guess.explain(key):
            shown = json.dumps(value, ensure_ascii=False)
            log.info("  data.%s = %s  (%s)", key, shown, guess.explain(key))
    log.info("  model = %s", model)


def add_default(parser: argparse.ArgumentParser) -> None:
    """Add the options that only a data file without a model file has."""
    kinds = "what the model learns to predict, without a model file (default: guessed)"
    parser.add_argument("--kind", choices=list(TEMPLATES), help=kinds)
    minutes = "about the time that training of an encoder may take, without a model file and "
    minutes += f"--epochs (default: {MINUTES:g})"
    parser.add_argument("--minutes", type=float, help=minutes)


def check_default(options: argparse.Namespace) -> None:
    """Raise UsageError if an argument is for a model file only, or for a data file only."""
    if options.minutes is not None and not options.minutes > 0:
        raise UsageError(f"--minutes: found {options.minutes:g}, expected a number above 0.")
    others = {"--train": options.train, "--epochs": options.epochs}
    found = [name for name, value in others.items() if value is not None]
    found += ["--set training.epochs"] if "training.epochs" in list_paths(options) else []
    if options.minutes is not None and found:
        raise UsageError(
            f"--minutes: found with {found[0]}, expected one of them; --time-limit stops a "
            "training, which the same command resumes."
        )
    if options.train is None and _is_model(options.file):
        raise UsageError(
            f"{options.file}: found a model file and no --train; add --train DATA, or name only a "
            "data file."
        )
    if options.train is not None and options.kind:
        raise UsageError(
            "--kind: found with --train, where the model file says the kind; leave it out, or "
            f"train without a model file: {join_command(['train', options.train])}."
        )


def _is_model(path: Path) -> bool:
    if path.suffix.lower() != ".json" or not path.is_file():
        return False
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except ValueError:
        return False
    return isinstance(found, dict) and "layers" in found
