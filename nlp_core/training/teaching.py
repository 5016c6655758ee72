"""Let a trained cell say what it thinks of texts, once: the soft labels that students learn from.

A seed's answers are kept in a work folder under a digest of the seed and of the texts, so a killed
run goes on at its seed, and a seed that was trained anew, or texts that changed, are scored anew.
The folder of soft labels appears whole, at the end.
"""

import logging
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nlp_core.config.distillation import SOFT_LABELS, TeacherConfig
from nlp_core.config.params import Params
from nlp_core.data.alteration import read_texts
from nlp_core.data.batching import order_evaluation_batches
from nlp_core.data.joining import strip_targets
from nlp_core.data.soft_labels import MANIFEST, find_split_digest, name_file, write_seed
from nlp_core.data.task import Split, Task, read_task
from nlp_core.errors import ConfigError, DataError, suggest
from nlp_core.files import digest_file, digest_json, replacing_folder, write_json
from nlp_core.heads import CRFTaggingHead, Head
from nlp_core.kinds import TAGS
from nlp_core.models.features import EncodedSplit, find_source
from nlp_core.models.graph import GraphModel
from nlp_core.models.saving import WEIGHTS
from nlp_core.prediction.split_prediction import EVALUATION_BATCH
from nlp_core.prediction.trained_model import TrainedModel
from nlp_core.training.cell import Cell, read_cell
from nlp_core.training.determinism import describe_machine, seed_everything
from nlp_core.training.lesson import describe_teacher
from nlp_core.training.lock import locked

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Teacher:
    """A trained cell and the texts that it is asked about.

    Attributes:
        name: key of the teacher in params.yaml.
        config: its entry.
        cell: the trained cell.
        task: the task that is taught.
        texts: the task whose texts they are.
    """

    name: str
    config: TeacherConfig
    cell: Cell
    task: Task
    texts: Task

    @property
    def folder(self) -> Path:
        """Where its soft labels go."""
        return Path(SOFT_LABELS) / self.config.set / self.name

    def find_key(self, seed: int) -> str:
        """Return the digest of what a seed's answers depend on."""
        return digest_json(
            {
                "teacher": describe_teacher(self.cell.folder, seed),
                "task": self.task.name,
                "split": find_split_digest(self.texts.folder, self.config.split),
                "machine": describe_machine(),
                "numerics": self.cell.numerics,
                **_describe_alteration(self.config),
            }
        )


def read_teacher(name: str, params: Params) -> Teacher:
    """Read and check all that a teacher needs, before any work starts.

    Raises:
        ConfigError: no teacher has that name; a head gives no outputs that could be compared.
        DataError: the cell is not trained, or the texts are not processed yet.
    """
    if name not in params.teachers:
        raise ConfigError(
            f"params.yaml: teachers: unknown teacher '{name}'. {suggest(name, params.teachers)}"
        )
    config = params.teachers[name]
    cell = read_cell(config.cell.rpartition("/")[2], params)
    for seed in config.seeds:
        folder, note = cell.folder / f"seed-{seed}", describe_teacher(cell.folder, seed)
        if note["weights"] != f"sha256:{digest_file(folder / WEIGHTS)}":
            raise DataError(
                f"{folder / WEIGHTS}: found other weights than cell.json says; run `dvc repro "
                f"--force {cell.experiment.stage}@{cell.name}`."
            )
    task = next(item for item in cell.tasks if item.name == config.taught)
    texts = read_task(Path("data/processed") / config.data)
    for head in cell.plan.for_task(task.name).heads.values():
        if not head.head.comparable or task.kind.has_passages:
            raise ConfigError(
                f"{cell.plan.where}: head '{head.name}': found {head.head.__name__}, expected one "
                f"whose outputs a student can learn from; '{cell.name}' cannot teach."
            )
    return Teacher(name, config, cell, task, texts)


def teach(teacher: Teacher) -> Path:
    """Write the soft labels of a teacher and return their folder.

    Raises:
        DataError: a text cannot be read as those of the teacher's own task.
        TrainingError: another process does the same.
    """
    work = Path("artifacts/work/soft_labels") / teacher.config.set / teacher.name
    with locked(work, "teacher"):
        kept = {seed: _teach_seed(teacher, seed, work) for seed in teacher.config.seeds}
        with replacing_folder(teacher.folder) as folder:
            for seed, path in kept.items():
                shutil.copyfile(path, folder / name_file(seed))
            write_json(folder / MANIFEST, _describe(teacher, folder), exact=True)
        for other in work.glob("*.parquet"):
            if other not in kept.values():
                other.unlink()
    log.info("teach done teacher=%s seeds=%s", teacher.name, teacher.config.seeds)
    return teacher.folder


def _teach_seed(teacher: Teacher, seed: int, work: Path) -> Path:
    """Ask one seed unless it was asked, and return the file of its answers."""
    path = work / f"{teacher.find_key(seed)[:16]}.parquet"
    if path.exists():
        log.info("teach kept teacher=%s seed=%d", teacher.name, seed)
        return path
    seed_everything(seed)
    trained = TrainedModel.open(teacher.cell.folder, seed=seed, task=teacher.task.name)
    split = read_texts(teacher.texts, teacher.config.split, teacher.config.alteration)
    split = strip_targets(split, [*teacher.task.targets])
    log.info("teach teacher=%s seed=%d rows=%d", teacher.name, seed, len(split))
    _check_columns(teacher, split)
    write_seed(path, split.ids, score_split(trained.model, trained.featurizer.encode(split)))
    return path


@torch.no_grad()
def score_split(model: GraphModel, encoded: EncodedSplit) -> dict[str, list[np.ndarray]]:
    """Return by target what a model says of each example, in the order of the split.

    Args:
        model: the model.
        encoded: the split; its labels are not read.

    Returns:
        Scores as the head gives them: [L], [T, L] of tags, or [] of a value.
    """
    model.eval()
    found: dict[str, list[np.ndarray]] = {}
    for rows in order_evaluation_batches(encoded.lengths, batch_size=EVALUATION_BATCH):
        for name, (score, mask) in model(encoded.batch(rows)).items():
            head = model.heads[name]
            assert isinstance(head, Head), name
            soft, own = head.soften(score, mask), found.setdefault(head.target, [])
            own += [np.empty(0)] * (len(encoded.split) - len(own))
            lengths = mask.sum(1).tolist() if head.target == TAGS else [None] * len(rows)
            for row, item, length in zip(rows, soft.numpy(), lengths, strict=True):
                own[row] = item[:length] if length is not None else item
    return found


def _check_columns(teacher: Teacher, split: Split) -> None:
    """Refuse texts of another form than those of the teacher's own task."""
    plan = teacher.cell.plan.for_task(teacher.task.name)
    missing = [name for name in plan.inputs.values() if find_source(name) not in split.columns]
    if missing:
        raise DataError(
            f"params.yaml: teachers.{teacher.name}.data: found '{teacher.texts.name}', which has "
            f"no column '{missing[0]}', expected texts that '{teacher.cell.name}' can read: "
            f"{', '.join(plan.inputs.values())}."
        )


def _describe(teacher: Teacher, folder: Path) -> dict[str, Any]:
    config, cell, task = teacher.config, teacher.cell, teacher.task
    heads = [plan.head for plan in cell.plan.for_task(task.name).heads.values()]
    labels = {head.target: task.targets[head.target] for head in heads}
    return {
        "task": task.name,
        "data": config.data,
        "split": config.split,
        **_describe_alteration(config),
        "seeds": config.seeds,
        "targets": task.targets,
        "widths": {head.target: 0 if head.grouped else len(labels[head.target]) for head in heads},
        "marginals": any(issubclass(head, CRFTaggingHead) for head in heads),
        "files": {path.name: digest_file(path) for path in sorted(folder.glob("*.parquet"))},
        "split_sha256": find_split_digest(teacher.texts.folder, config.split),
        "teacher": {
            "cell": config.cell,
            "seeds": {
                seed: digest_json(describe_teacher(cell.folder, seed)) for seed in config.seeds
            },
        },
    }


def _describe_alteration(config: TeacherConfig) -> dict[str, Any]:
    """Return a note of the alteration; none at all where texts are scored as they are."""
    return {} if config.alteration is None else {"alteration": config.alteration.model_dump()}
