"""Let a trained cell predict a task's training texts: a task with soft labels.

A seed's answers are kept in a work folder under a digest of the seed and of the texts, so a killed
run resumes at its seed, and a retrained seed, or changed texts, are scored again.
The folder of the taught task appears whole, at the end.
"""

import logging
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from nlp_core.config.base import read_mapping
from nlp_core.config.distillation import TeachingConfig
from nlp_core.config.params import Params
from nlp_core.data.alteration import alter_split
from nlp_core.data.batching import order_evaluation_batches
from nlp_core.data.joining import append_altered, append_split
from nlp_core.data.soft_labels import (
    SOFT,
    TRAIN,
    SoftLabels,
    TaughtBy,
    append_answers,
    read_soft_labels,
    write_answers,
)
from nlp_core.data.task import Split, Task, read_split_file, read_task
from nlp_core.errors import ConfigError, DataError, suggest
from nlp_core.files import (
    MANIFEST,
    digest_file,
    digest_json,
    replacing,
    replacing_folder,
    write_json,
)
from nlp_core.heads import CRFTaggingHead, Head
from nlp_core.kinds import TAGS
from nlp_core.models.features import EncodedSplit, find_source
from nlp_core.models.graph import GraphModel
from nlp_core.models.plan import HeadPlan
from nlp_core.models.saving import WEIGHTS
from nlp_core.prediction.split_prediction import EVALUATION_BATCH
from nlp_core.prediction.trained_model import TrainedModel
from nlp_core.training.cell import Cell, read_cell
from nlp_core.training.determinism import describe_machine, seed_everything
from nlp_core.training.lesson import describe_teacher
from nlp_core.training.lock import locked

log = logging.getLogger(__name__)
PROCESSED = Path("data/processed")
TRAIN_FILE = f"{TRAIN}.parquet"


@dataclass(frozen=True)
class Teacher:
    """A trained cell and the task that it teaches.

    Attributes:
        name: key of the taught task in params.yaml.
        config: its entry.
        cell: the trained cell.
        task: the processed task that it is asked about.
    """

    name: str
    config: TeachingConfig
    cell: Cell
    task: Task

    @property
    def folder(self) -> Path:
        """Where the taught task goes."""
        return PROCESSED / self.name

    @property
    def heads(self) -> list[HeadPlan]:
        """The heads that teach."""
        return [*self.cell.plan.for_task(self.task.name).heads.values()]

    def find_key(self, seed: int) -> str:
        """Return the digest of what a seed's answers depend on."""
        return digest_json(
            {
                "teacher": describe_teacher(self.cell.folder, seed),
                "task": self.task.digest,
                "texts": self.config.model_dump(exclude={"cell", "seeds", "data"}),
                "machine": describe_machine(),
                "numerics": self.cell.numerics,
            }
        )


def read_teacher(name: str, params: Params) -> Teacher:
    """Read and check all that a taught task is made of, before any work starts.

    Raises:
        ConfigError: no taught task has that name; a head gives no outputs that could be compared.
        DataError: the cell is not trained, or the task is not processed yet.
    """
    if name not in params.taught:
        raise ConfigError(
            f"params.yaml: taught: unknown task '{name}'. {suggest(name, params.taught)}"
        )
    config = params.taught[name]
    cell = read_cell(config.cell.rpartition("/")[2], params)
    for seed in config.seeds:
        folder, note = cell.folder / f"seed-{seed}", describe_teacher(cell.folder, seed)
        if note["weights"] != f"sha256:{digest_file(folder / WEIGHTS)}":
            raise DataError(
                f"{folder / WEIGHTS}: found other weights than cell.json says; run `dvc repro "
                f"--force finetune@{cell.name}`."
            )
    teacher = Teacher(name, config, cell, read_task(PROCESSED / config.data))
    for head in teacher.heads:
        if not head.head.comparable or teacher.task.kind.has_passages:
            raise ConfigError(
                f"{cell.plan.where}: head '{head.name}': found {head.head.__name__}, expected one "
                f"whose outputs a student can learn from; '{cell.name}' cannot teach."
            )
    (own,) = (item for item in cell.tasks if item.name == teacher.task.name)
    if own.targets != teacher.task.targets:
        raise DataError(
            f"{teacher.task.folder}: found the labels {teacher.task.targets}, expected those that "
            f"'{cell.name}' was trained on, {own.targets}."
        )
    return teacher


def teach(teacher: Teacher) -> Path:
    """Write the taught task and return its folder.

    Raises:
        DataError: the texts cannot be altered or joined, or another cell taught them with another
            sort of head.
        TrainingError: another process does the same.
    """
    work, seeds = Path("artifacts/work/taught") / teacher.name, teacher.config.seeds
    with locked(work, "teacher"):
        texts = _read_texts(teacher)
        kept = [_teach_seed(teacher, seed, work, texts) for seed in seeds]
        before = read_soft_labels(teacher.task.folder)
        with replacing_folder(teacher.folder) as folder:
            for path in sorted(teacher.task.folder.glob("*.parquet")):
                if path.name != TRAIN_FILE:
                    shutil.copyfile(path, folder / path.name)
            table = texts.table
            for member, path in enumerate(kept, len(before.teachers) if before else 0):
                table = append_answers(table, member, path)
            pq.write_table(table, folder / TRAIN_FILE, compression="zstd")
            soft = _describe(teacher, texts, before)
            manifest = read_mapping(teacher.task.folder / MANIFEST) | {SOFT: soft.describe()}
            manifest["splits"][TRAIN]["sha256"] = digest_file(folder / TRAIN_FILE)
            manifest["splits"][TRAIN]["rows"] = len(table)
            write_json(folder / MANIFEST, manifest)
        for other in work.glob("*.parquet"):
            if other not in kept:
                other.unlink()
    log.info("teach done task=%s seeds=%s", teacher.name, seeds)
    return teacher.folder


class Texts(NamedTuple):
    """What a teacher is asked about: the training texts, with further ones behind.

    Attributes:
        table: the rows.
        begins: where the training texts begin, and each sort of further ones.
    """

    table: pa.Table
    begins: list[int]


def _read_texts(teacher: Teacher) -> Texts:
    task, config = teacher.task, teacher.config
    table = pq.ParquetFile(task.folder / TRAIN_FILE).read()
    taught = read_soft_labels(task.folder)
    if taught and (config.further or config.alteration):
        raise DataError(
            f"params.yaml: taught.{teacher.name}.data: found '{config.data}', which other cells "
            "have taught already, and further texts, which those have not seen; let the first cell "
            "have them."
        )
    begins = [0]
    if config.further:
        begins.append(len(table))
        more = pq.ParquetFile(task.folder / f"{config.further}.parquet").read()
        table = append_split(table, more, [*task.targets])
    if config.alteration:
        begins.append(len(table))
        altered = alter_split(task.read_split(TRAIN), config.alteration)
        table = append_altered(table, altered, task.kind.texts)
    return Texts(table, begins)


def _teach_seed(teacher: Teacher, seed: int, work: Path, texts: Texts) -> Path:
    """Ask one seed unless it was asked, and return the file of its answers."""
    path = work / f"{teacher.find_key(seed)[:16]}.parquet"
    if path.exists():
        log.info("teach kept task=%s seed=%d", teacher.name, seed)
        return path
    seed_everything(seed)
    trained = TrainedModel.open(teacher.cell.folder, seed=seed, task=teacher.task.name)
    with replacing(work / TRAIN_FILE) as temporary:
        pq.write_table(texts.table, temporary)
        split = read_split_file(temporary, teacher.task.kind, teacher.task.targets)
    log.info("teach task=%s seed=%d rows=%d", teacher.name, seed, len(split))
    _check_columns(teacher, split)
    encoded = trained.featurizer.encode(split)
    write_answers(path, score_split(trained.model, encoded, texts.begins))
    return path


@torch.no_grad()
def score_split(
    model: GraphModel, encoded: EncodedSplit, begins: Sequence[int] = (0,)
) -> dict[str, list[np.ndarray]]:
    """Return by target what a model says of each example, in the order of the split.

    Args:
        model: the model.
        encoded: the split; its labels are not read.
        begins: where each of its parts begins; a batch is of one part.

    Returns:
        Scores as the head gives them: [L], [T, L] of tags, or [] of a value.
    """
    model.eval()
    found: dict[str, list[np.ndarray]] = {}
    for rows in _list_batches(encoded.lengths, begins):
        for name, (score, mask) in model(encoded.batch(rows)).items():
            head = model.heads[name]
            assert isinstance(head, Head), name
            soft, own = head.soften(score, mask), found.setdefault(head.target, [])
            own += [np.empty(0)] * (len(encoded.split) - len(own))
            lengths = mask.sum(1).tolist() if head.target == TAGS else [None] * len(rows)
            for row, item, length in zip(rows, soft.numpy(), lengths, strict=True):
                own[row] = item[:length] if length is not None else item
    return found


def _list_batches(lengths: np.ndarray, begins: Sequence[int]) -> Iterator[np.ndarray]:
    for first, last in zip(begins, [*begins[1:], len(lengths)], strict=True):
        part = lengths[first:last]
        for rows in order_evaluation_batches(part, batch_size=EVALUATION_BATCH):
            yield rows + first


def _check_columns(teacher: Teacher, split: Split) -> None:
    """Refuse texts of another form than the teacher reads."""
    plan = teacher.cell.plan.for_task(teacher.task.name)
    missing = [name for name in plan.inputs.values() if find_source(name) not in split.columns]
    if missing:
        raise DataError(
            f"params.yaml: taught.{teacher.name}.data: found '{teacher.config.data}', which has "
            f"no column '{missing[0]}', expected texts that '{teacher.cell.name}' can read: "
            f"{', '.join(plan.inputs.values())}."
        )


def _describe(teacher: Teacher, texts: Texts, before: SoftLabels | None) -> SoftLabels:
    cell, targets = teacher.cell, teacher.task.targets
    heads = [plan.head for plan in teacher.heads]
    widths: dict[str, int] = {
        head.target: 0 if head.grouped else len(targets[head.target]) for head in heads
    }
    marginals = any(issubclass(head, CRFTaggingHead) for head in heads)
    teachers = [
        TaughtBy(cell.folder, seed, digest_json(describe_teacher(cell.folder, seed)))
        for seed in teacher.config.seeds
    ]
    own = [*texts.begins, len(texts.table)][1]
    soft = SoftLabels(own, widths, marginals, teachers)
    if before is None:
        return soft
    if before.widths != widths:
        raise DataError(
            f"{teacher.task.folder}: found {before.widths} numbers a target, and {widths} of "
            f"'{cell.name}'; teachers of one task need heads of one sort."
        )
    return replace(
        before,
        marginals=before.marginals or marginals,
        teachers=[*before.teachers, *teachers],
    )
