"""Pretrain an encoder of the grid into artifacts/cells/<table>/<encoder>/.

The folder is that of a processed encoder, so that a cell can name it as its init. It has the
encoder of the first seed with its heads and history, and the histories of the other seeds. It
appears whole, at the end. Finished seeds and checkpoints are kept in a work folder whose name is
the digest of all that they depend on.
"""

import logging
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from nlp_core.config.base import CELL, HISTORY, SEED, name_folder, read_mapping
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
from nlp_core.training.history import read_history, summarise_history
from nlp_core.training.pretraining_run import (
    PIECES,
    Pretraining,
    name_checkpoint,
)
from nlp_core.training.processes import Processes, find_processes
from nlp_core.training.work import join_training, remove_others, train_once

log = logging.getLogger(__name__)

PARAMETERS = "parameters.json"
"""The file of a finished seed with the numbers of its parameters."""


def pretrain_encoder(plan: EncoderPlan) -> Path:
    """Pretrain an encoder with each of its seeds, or resume, and return the folder of the first.

    Raises:
        ConfigError: tokenizer or architecture cannot be what the grid says.
        TrainingError: a loss is not finite, or another process trains this encoder.
    """
    place = f"{plan.config.table}/{plan.name}"
    work = Path("artifacts/work") / place / plan.key[:16]
    target = Path(name_folder(plan.config.table, plan.name))
    with join_training(work, "encoder") as processes:
        finished = {
            seed: pretrain_seed(plan, seed, work, processes, notes=Path("runs") / place)
            for seed in plan.config.seeds
        }
        if not processes.is_first:
            return target
        first, *others = finished.values()
        with replacing_folder(target) as folder:
            ignored = shutil.ignore_patterns(PARAMETERS)
            shutil.copytree(first, folder, ignore=ignored, dirs_exist_ok=True)
            for done in others:
                (folder / done.name).mkdir()
                shutil.copy(done / HISTORY, folder / done.name)
            write_json(folder / CELL, describe_encoder(plan, finished), exact=True)
        shutil.rmtree(work / PIECES, ignore_errors=True)
        remove_others(work)
    log.info("pretrain done encoder=%s seeds=%s", plan.name, plan.config.seeds)
    return target


def pretrain_seed(
    plan: EncoderPlan,
    seed: int,
    work: Path,
    processes: Processes | None = None,
    *,
    notes: Path | None = None,
) -> Path:
    """Pretrain with one seed unless it is finished, and return the folder that holds the encoder.

    Args:
        work: folder of finished seeds and of checkpoints, from which a killed run resumes.
        processes: those that take part in each step; None: those of `find_processes`.
        notes: folder for the times of the run; None: they are not kept.
    """
    processes, done = processes or find_processes(), work / f"{SEED}{seed}"
    train = partial(_pretrain, plan, seed, work, done, processes)
    checkpoint, note = work / name_checkpoint(seed, 0), notes and notes / f"{done.name}.json"
    if not train_once(train, done, checkpoint, processes, note):
        log.info("pretrain kept encoder=%s seed=%d", plan.name, seed)
    return done


def _pretrain(plan: EncoderPlan, seed: int, work: Path, done: Path, processes: Processes) -> None:
    with processes.first_before_others():
        tokenizer = _prepare_tokenizer(plan, work)
    seed_everything(seed)
    run = Pretraining(plan, seed, tokenizer, work, processes)
    total = sum(phase.steps for phase, _ in plan.config.list_trainings())
    with show_progress(f"{plan.name} seed {seed}", total, shown=processes.is_first) as bar:
        events = list(run.train(bar.reach))
    if not processes.is_first:
        return
    with replacing_folder(done) as folder:
        _write_encoder(folder, plan, run.model, tokenizer)
        write_text(folder / HISTORY, "".join(map(format_line, events)))
        write_json(folder / PARAMETERS, _count_parameters(run.model))
    for path in work.glob(name_checkpoint(seed, "*")):
        path.unlink()


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
            seed=plan.config.seeds[0],
            where=f"{plan.where}.tokenizer",
        )
        write_text(path, learnt + "\n")
    return path.read_text(encoding="utf-8")


def _write_encoder(
    folder: Path, plan: EncoderPlan, model: PretrainingModel, tokenizer: str
) -> None:
    model.save(folder, tokenizer)
    made_of = [plan.task.folder, *([] if plan.config.is_from_scratch else [plan.init])]
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


def _count_parameters(model: PretrainingModel) -> dict[str, int]:
    return {
        "total": sum(parameter.numel() for parameter in model.encoder.parameters()),
        "heads": sum(parameter.numel() for parameter in model.model.heads.parameters()),
    }


def describe_encoder(plan: EncoderPlan, finished: Mapping[int, Path]) -> dict[str, Any]:
    """Return the content of cell.json.

    Args:
        finished: the folder of each seed.
    """
    config = plan.config
    histories = {seed: read_history(folder) for seed, folder in finished.items()}
    measured = [*map(summarise_history, histories.values())]
    return {
        "table": config.table,
        "cell": plan.name,
        "model": config.init,
        "recipe": plan.name,
        "recipe_digest": digest_json(config.describe()),
        "seeds": [*finished],
        "numerics": plan.numerics,
        "data": {
            config.data: f"sha256:{plan.task.digest}",
            config.measured_on: f"sha256:{plan.text_digest}",
        },
        "init": {"path": config.init, "sha256": f"sha256:{plan.init_digest}"},
        "fingerprint": describe_machine(),
        "parameters": read_mapping(next(iter(finished.values())) / PARAMETERS),
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
        "metrics": {name: [seed[name] for seed in measured] for name in measured[0]},
        "runs": {
            str(seed): {
                "weights": f"sha256:{digest_file(finished[seed] / WEIGHTS)}",
                "predictions": {},
                "validations": [e["digest"] for e in events if e["event"] == "weights"],
                "epochs": {},
            }
            for seed, events in histories.items()
        },
    }
