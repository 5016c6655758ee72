"""Pretrain an encoder of the grid into artifacts/cells/<table>/<encoder>/.

The folder is that of a processed encoder, so that a cell can name it as its init, with the heads
and the history. It appears whole, at the end; until then the run is kept in a work folder
whose name is the digest of all that it depends on.
"""

import logging
import shutil
from pathlib import Path
from typing import Any

from nlp_core.config.base import CELL, HISTORY, read_mapping
from nlp_core.data.corpus import read_corpus
from nlp_core.data.word_piece import learn_from_corpus
from nlp_core.encoders.folder import ENCODER_FILES
from nlp_core.files import (
    MANIFEST,
    digest_file,
    digest_json,
    format_line,
    replacing_folder,
    write_json,
    write_text,
)
from nlp_core.kinds import MASKED_LANGUAGE_MODEL
from nlp_core.models.pretraining import PretrainingModel
from nlp_core.models.saving import WEIGHTS
from nlp_core.progress import show_progress
from nlp_core.training.determinism import describe_machine, seed_everything
from nlp_core.training.encoder_plan import EncoderPlan
from nlp_core.training.pretraining_run import (
    Event,
    Pretraining,
    name_checkpoint,
    summarise_history,
)
from nlp_core.training.work import join_training, start_run, write_run_note

log = logging.getLogger(__name__)


def pretrain_encoder(
    plan: EncoderPlan, root: Path = Path("artifacts"), *, notes: Path | None = Path("runs")
) -> Path:
    """Pretrain an encoder, or resume it, and return its folder.

    Args:
        notes: folder for the times of the run; None: they are not kept.

    Raises:
        ConfigError: tokenizer or architecture cannot be what the grid says.
        TrainingError: a loss is not finite, or another process trains this encoder.
    """
    place = f"{plan.config.table}/{plan.name}"
    work, target = root / "work" / place / plan.key[:16], root / "cells" / place
    start = start_run(work / name_checkpoint(0))
    with join_training(work, "encoder") as processes:
        with processes.first_before_others():
            tokenizer = _prepare_tokenizer(plan, work)
        seed_everything(plan.config.seed)
        run = Pretraining(plan, tokenizer, work, processes)
        total = sum(phase.steps for phase, _ in plan.config.list_trainings())
        with show_progress(plan.name, total, shown=processes.is_first) as bar:
            events = list(run.train(bar.reach))
        if not processes.is_first:
            return target
        with replacing_folder(target) as folder:
            _write_encoder(folder, plan, run.model, tokenizer)
            write_text(folder / HISTORY, "".join(map(format_line, events)))
            note = _describe_cell(folder, plan, run.model, events)
            write_json(folder / CELL, note, exact=True)
        for other in work.parent.iterdir():
            shutil.rmtree(other)
    if notes is not None:
        path = notes / place / f"seed-{plan.config.seed}.json"
        write_run_note(path, start, target / WEIGHTS, num_processes=processes.count)
    log.info("pretrain done encoder=%s steps=%d", plan.name, total)
    return target


def _prepare_tokenizer(plan: EncoderPlan, work: Path) -> str:
    """Return the tokenizer as JSON; a learnt one is kept in the work folder."""
    config = plan.config.tokenizer
    if config is None:
        return (plan.init / "tokenizer.json").read_text(encoding="utf-8")
    path = work / "tokenizer.json"
    if not path.exists():
        learnt = learn_from_corpus(
            read_corpus(plan.task.folder),
            vocab_size=config.vocab_size,
            lowercase=config.lowercase,
            seed=plan.config.seed,
            where=f"{plan.where}.tokenizer",
        )
        write_text(path, learnt + "\n")
    return path.read_text(encoding="utf-8")


def _write_encoder(
    folder: Path, plan: EncoderPlan, model: PretrainingModel, tokenizer: str
) -> None:
    model.save(folder, tokenizer)
    made_of = [plan.task.folder, *([] if plan.config.begins_from_nothing else [plan.init])]
    source: dict[str, Any] = {}
    for origin in made_of:
        source |= read_mapping(origin / MANIFEST).get("source", {})
    write_json(
        folder / MANIFEST,
        {
            "task": plan.name,
            "kind": "encoder",
            "model_type": model.encoder.config.model_type,
            "files": {name: digest_file(folder / name) for name in ENCODER_FILES},
            "source": source,
        },
    )


def _describe_cell(
    folder: Path, plan: EncoderPlan, model: PretrainingModel, events: list[Event]
) -> dict[str, Any]:
    config = plan.config
    return {
        "table": config.table,
        "cell": plan.name,
        "model": config.init,
        "recipe": plan.name,
        "recipe_digest": digest_json(config.describe()),
        "seeds": [config.seed],
        "numerics": plan.numerics,
        "data": {
            config.data: f"sha256:{plan.task.digest}",
            config.measured_on: f"sha256:{plan.text_digest}",
        },
        "init": {"path": config.init, "sha256": f"sha256:{plan.init_digest}"},
        "fingerprint": describe_machine(),
        "parameters": {
            "total": sum(parameter.numel() for parameter in model.encoder.parameters()),
            "heads": sum(parameter.numel() for parameter in model.model.heads.parameters()),
        },
        "tasks": {
            config.data: {
                "kind": MASKED_LANGUAGE_MODEL.name,
                "labels": [],
                "metrics": [],
                "select_split": "",
                "report_split": config.measured_on,
                "scheme": None,
                "footnotes": plan.task.footnotes,
            }
        },
        "metrics": summarise_history(events),
        "runs": {
            str(config.seed): {
                "weights": f"sha256:{digest_file(folder / WEIGHTS)}",
                "predictions": {},
                "validations": [e["digest"] for e in events if e["event"] == "weights"],
                "epochs": {},
            }
        },
    }
