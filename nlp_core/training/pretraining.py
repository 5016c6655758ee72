"""Pretrain an encoder of the grid into artifacts/cells/<table>/<encoder>/.

The folder is that of a processed encoder, so that a cell can name it as its init, with the heads
and the history beside. It appears whole, at the end; until then the run is kept in a work folder
whose name is the digest of all that it depends on.
"""

import json
import logging
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nlp_core.config.base import read_mapping
from nlp_core.config.params import GRID, Params
from nlp_core.config.pretraining import EncoderConfig
from nlp_core.data.corpus import Corpus, read_corpus
from nlp_core.data.corpus_stream import CorpusStream
from nlp_core.data.masked_text import mask_text, read_held_out, read_running_text
from nlp_core.data.pieces import WEIGHTS, count_positions
from nlp_core.data.task import list_footnotes, read_task
from nlp_core.data.word_piece import PieceSet, learn_from_corpus, read_pieces
from nlp_core.encoders.architecture import read_architecture
from nlp_core.encoders.folder import ENCODER_FILES
from nlp_core.encoders.masked_language_model import MaskedLanguageModel
from nlp_core.encoders.pretrained import build_encoder, save_encoder
from nlp_core.errors import ConfigError, DataError, suggest
from nlp_core.files import (
    digest_file,
    digest_json,
    format_line,
    replacing_folder,
    write_json,
    write_text,
)
from nlp_core.kinds import MASKED_LANGUAGE_MODEL
from nlp_core.models.masked_split import HEADS
from nlp_core.training.cell import name_stage
from nlp_core.training.checkpoint import load_tensors, save_tensors
from nlp_core.training.determinism import describe_machine, seed_everything
from nlp_core.training.lock import locked
from nlp_core.training.pretraining_loop import AFTER, Pretrainer, PretrainingProgress
from nlp_core.training.progress import show_progress
from nlp_core.training.run_note import write_run_note

log = logging.getLogger(__name__)

HELD_OUT = "held_out"
LAST_EVENTS = 10
"""Lines of history over which the accuracy in training is given."""


@dataclass(frozen=True)
class EncoderPlan:
    """All that an encoder is made of, checked.

    Attributes:
        name: key of the encoder.
        config: how it is trained.
        numerics: of params.yaml.
        corpus: the documents.
        measured_on: folder of the text that it is measured on.
        text_digest: digest of that.
        init_digest: digest of what it begins with.
    """

    name: str
    config: EncoderConfig
    numerics: int
    corpus: Corpus
    measured_on: Path
    text_digest: str
    init_digest: str

    @property
    def init(self) -> Path:
        """Folder of the encoder that is trained on, or file of an architecture."""
        return Path(self.config.init)

    @property
    def key(self) -> str:
        """Digest of what the weights depend on."""
        return digest_json(
            {
                "numerics": self.numerics,
                "config": self.config.describe(),
                "data": [self.corpus.digest, self.text_digest],
                "init": self.init_digest,
                "machine": describe_machine(),
            }
        )


def read_encoder(name: str, params: Params) -> EncoderPlan:
    """Read and check all that an encoder is made of, before any work starts.

    Raises:
        ConfigError: no encoder has that name, or what it names is of another kind.
        DataError: what it names is not there yet.
    """
    if name not in params.encoders:
        hint = suggest(name, params.encoders)
        raise ConfigError(f"{GRID}/: encoders: unknown encoder '{name}'. {hint}")
    config = params.encoders[name]
    measured_on = Path("data/processed") / config.measured_on
    return EncoderPlan(
        name=name,
        config=config,
        numerics=params.numerics,
        corpus=read_corpus(Path("data/processed") / config.data),
        measured_on=measured_on,
        text_digest=read_task(measured_on).digest,
        init_digest=_digest_init(name, config),
    )


def _digest_init(name: str, config: EncoderConfig) -> str:
    init = Path(config.init)
    if config.begins_from_nothing:
        return digest_json(read_mapping(init))
    path = init / "manifest.json"
    if not path.exists():
        raise DataError(
            f"{path}: there is no such file, so '{init}', the init of encoder '{name}', is not "
            f"made yet; run `dvc repro {name_stage(init)}`."
        )
    manifest = read_mapping(path)
    if manifest["kind"] != "encoder":
        raise ConfigError(
            f"{GRID}/{config.table}.yaml: encoders.{name}.init: found '{init}', which holds "
            f"data of the kind {manifest['kind']}, expected a pretrained encoder, such as "
            "data/processed/minilm."
        )
    return digest_json(manifest["files"])


def pretrain_encoder(
    plan: EncoderPlan,
    root: Path = Path("artifacts"),
    *,
    notes: Path | None = Path("runs"),
) -> Path:
    """Pretrain an encoder, or go on with it, and return its folder.

    Args:
        plan: what is trained.
        root: folder of the finished encoders and of the work folders.
        notes: folder for the times of the run; None: they are not kept.

    Raises:
        ConfigError: tokenizer or architecture cannot be what params.yaml says.
        TrainingError: a loss is not finite, or another process trains this encoder.
    """
    place = f"{plan.config.table}/{plan.name}"
    work, target = root / "work" / place / plan.key[:16], root / "cells" / place
    started = time.time()
    with locked(work, "encoder"):
        tokenizer = _prepare_tokenizer(plan, work)
        seed_everything(plan.config.seed)
        pieces = read_pieces(tokenizer, str(plan.init))
        model = build_model(plan, pieces)
        checkpoint = work / "checkpoint.safetensors"
        trainer = _build_trainer(plan, model, pieces, checkpoint)
        with show_progress(plan.name, plan.config.all_steps) as on_step:
            progress = trainer.run(on_step)
        with replacing_folder(target) as folder:
            _write_encoder(folder, plan, model, tokenizer)
            _write_cell(folder, plan, model, progress)
        for other in work.parent.iterdir():
            shutil.rmtree(other)
    if notes is not None:
        write_run_note(notes / place / f"seed-{plan.config.seed}.json", started)
    log.info("pretrain done encoder=%s steps=%d", plan.name, progress.step)
    return target


def _build_trainer(
    plan: EncoderPlan, model: MaskedLanguageModel, pieces: PieceSet, checkpoint: Path
) -> Pretrainer:
    config, length = plan.config, count_positions(model.encoder.config.to_dict())
    for number, phase in enumerate(config.phases):
        if phase.length > length:
            raise ConfigError(
                f"{GRID}/{config.table}.yaml: encoders.{plan.name}.phases.{number}.length: found "
                f"{phase.length}, expected at most {length}, the positions that the encoder has."
            )
    documents = {
        config.measured_on: read_running_text(plan.measured_on, pieces.unknown),
        HELD_OUT: read_held_out(plan.corpus),
    }
    texts = [mask_text(name, found, pieces, length=length) for name, found in documents.items()]
    stream = CorpusStream(
        plan.corpus,
        pieces,
        pairs=config.pairs,
        short_prob=config.short_prob,
        seed=config.seed,
    )
    return Pretrainer(model, stream, texts, config=config, name=plan.name, checkpoint=checkpoint)


def _prepare_tokenizer(plan: EncoderPlan, work: Path) -> str:
    """Return the tokenizer as JSON; a learnt one is kept in the work folder."""
    config = plan.config.tokenizer
    if config is None:
        return (plan.init / "tokenizer.json").read_text(encoding="utf-8")
    path = work / "tokenizer.json"
    if not path.exists():
        learnt = learn_from_corpus(
            plan.corpus,
            vocab_size=config.vocab_size,
            lowercase=config.lowercase,
            seed=plan.config.seed,
            where=f"{GRID}/{plan.config.table}.yaml: encoders.{plan.name}.tokenizer",
        )
        write_text(path, learnt + "\n")
    return path.read_text(encoding="utf-8")


def build_model(plan: EncoderPlan, pieces: PieceSet) -> MaskedLanguageModel:
    """Return encoder and heads: those of init where it has them, else new ones.

    Args:
        plan: the encoder.
        pieces: its tokenizer.

    Raises:
        ConfigError: the architecture is none.
    """
    if plan.config.begins_from_nothing:
        size = pieces.tokenizer.get_vocab_size()
        encoder = build_encoder(read_architecture(plan.init, size, pieces.padding), None)
    else:
        config = json.loads((plan.init / "config.json").read_text(encoding="utf-8"))
        encoder = build_encoder(config, plan.init)
    model = MaskedLanguageModel(encoder, has_pairs=plan.config.pairs is not None)
    if (plan.init / HEADS).exists():
        kept, _ = load_tensors(plan.init / HEADS)
        own = model.heads.state_dict()
        model.heads.load_state_dict({**own, **{key: kept[key] for key in kept if key in own}})
    return model


def _write_encoder(
    folder: Path, plan: EncoderPlan, model: MaskedLanguageModel, tokenizer: str
) -> None:
    """Write the files of a processed encoder, and the heads."""
    save_encoder(model.encoder, folder)
    write_text(folder / "tokenizer.json", tokenizer)
    save_tensors(folder / HEADS, model.heads.state_dict())
    source = dict(_read_source(plan.corpus.folder))
    if not plan.config.begins_from_nothing:
        source |= _read_source(plan.init)
    write_json(
        folder / "manifest.json",
        {
            "task": plan.name,
            "kind": "encoder",
            "model_type": model.encoder.config.model_type,
            "files": {name: digest_file(folder / name) for name in ENCODER_FILES},
            "source": source,
        },
    )


def _read_source(folder: Path) -> dict[str, dict[str, str | None]]:
    """Return digest and label of the members that a processed folder was made of."""
    found: dict[str, dict[str, str | None]] = read_mapping(folder / "manifest.json").get(
        "source", {}
    )
    return found


def _write_cell(
    folder: Path, plan: EncoderPlan, model: MaskedLanguageModel, progress: PretrainingProgress
) -> None:
    lines = "".join(format_line(event) for event in progress.events)
    write_text(folder / "history.jsonl", lines)
    config, encoder = plan.config, model.encoder
    note = {
        "table": config.table,
        "cell": plan.name,
        "model": config.init,
        "recipe": plan.name,
        "recipe_digest": digest_json(config.describe()),
        "seeds": [config.seed],
        "numerics": plan.numerics,
        "data": {
            config.data: f"sha256:{plan.corpus.digest}",
            config.measured_on: f"sha256:{plan.text_digest}",
        },
        "init": {"path": config.init, "sha256": f"sha256:{plan.init_digest}"},
        "fingerprint": describe_machine(),
        "parameters": {
            "total": sum(parameter.numel() for parameter in encoder.parameters()),
            "heads": sum(parameter.numel() for parameter in model.heads.parameters()),
        },
        "tasks": {
            config.data: {
                "kind": MASKED_LANGUAGE_MODEL.name,
                "labels": [],
                "metrics": [],
                "select_split": "",
                "report_split": config.measured_on,
                "scheme": None,
                "footnotes": list_footnotes(_read_source(plan.corpus.folder)),
            }
        },
        "metrics": summarise_history(progress.events),
        "runs": {
            str(config.seed): {
                "weights": f"sha256:{digest_file(folder / WEIGHTS)}",
                "predictions": {},
                "validations": [
                    event["digest"] for event in progress.events if event["event"] == "weights"
                ],
                "epochs": {},
            }
        },
    }
    write_json(folder / "cell.json", note, exact=True)


def summarise_history(events: list[dict[str, Any]]) -> dict[str, float]:
    """Return what the table shows: each text, before and after, and the last accuracy in training.

    `wikitext2.perplexity` is the end, `before.wikitext2.perplexity` the encoder as it began.
    """
    found: dict[str, float] = {}
    for event in events:
        if event["event"] == "measure":
            prefix = "" if event["at"] == AFTER else f"{event['at']}."
            for metric in ("perplexity", "accuracy"):
                found[f"{prefix}{event['text']}.{metric}"] = event[metric]
    last = [event for event in events if event["event"] == "train"][-LAST_EVENTS:]
    for metric in ("accuracy", "pair_accuracy"):
        if last and metric in last[-1]:
            found[f"train.{metric}"] = sum(event[metric] for event in last) / len(last)
    return found
