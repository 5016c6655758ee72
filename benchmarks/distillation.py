"""Queries per second of a teacher and its students, in one run.

    python benchmarks/distillation.py [TEACHER STUDENT ...] [--data TASK] [--rounds N] [--csv FILE]

A model is named MODEL.json:INIT. Weights are random, since the time does not depend on them;
vocabularies are those of the task's training split. In each round every model in turn answers its
share of the sentences of the reported split, in random order, one thread. Features are made before;
decoding is timed. Prints medians over the rounds, and the median ratio to the teacher in the same
round, of wall time and of processor time. Results hold no times, so this writes a separate file,
with the processor's name.
"""

import argparse
import csv
import statistics
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nlp_core.data.batching import order_evaluation_batches
from nlp_core.data.task import Split, Task, read_task
from nlp_core.models.batch import Batch
from nlp_core.models.features import Featurizer
from nlp_core.models.graph import GraphModel, build_model, count_parameters
from nlp_core.models.plan import read_plan
from nlp_core.processor import name_processor
from nlp_core.training.determinism import seed_everything

import torch  # isort: skip  # after nlp_core, which pins threads and instruction set

MODELS = [
    "zoo/mtdnn/minilm.json:data/processed/minilm",
    "zoo/distillation/sst2_minilm_3_layers.json:data/processed/minilm",
    "zoo/distillation/sst2_bilstm_attn_textcnn.json:data/processed/glove",
    "zoo/distillation/sst2_textcnn.json:data/processed/glove",
]
BATCH_SIZES = [1, 32]
TEACHER_SENTENCES = {1: 16, 32: 64}
STUDENT_SENTENCES = {1: 160, 32: 640}


class Speed(NamedTuple):
    """Sentences per second of wall time and of processor time."""

    wall: float
    processor: float


def build(named: str, task: Task, train: Split) -> tuple[GraphModel, Featurizer]:
    path, _, init = named.partition(":")
    plan = read_plan(Path(path))
    featurizer = Featurizer.build(plan, task, train, Path(init))
    seed_everything(1)
    return build_model(plan, featurizer, kind=task.kind).eval(), featurizer


def cut_batches(featurizer: Featurizer, split: Split, batch_size: int) -> list[Batch]:
    """Return the sentences of a split in batches of similar length, the batches in random order."""
    encoded = featurizer.encode(split)
    if batch_size == 1:
        rows = [np.array([row]) for row in range(len(split))]
    else:
        rows = list(order_evaluation_batches(encoded.lengths, batch_size=batch_size))
    order = np.random.default_rng(1).permutation(len(rows))
    return [encoded.batch(rows[place]) for place in order]


@torch.no_grad()
def answer(model: GraphModel, batches: list[Batch], number: int, start: int) -> Speed:
    """Answer at least `number` sentences from a batch on, and return the speed."""
    wall, processor, seen = time.perf_counter(), time.process_time(), 0
    while seen < number:
        batch = batches[start % len(batches)]
        model.decode(batch)
        seen += len(batch.rows)
        start += 1
    return Speed(seen / (time.perf_counter() - wall), seen / (time.process_time() - processor))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=MODELS, help="MODEL.json:INIT, teacher first")
    parser.add_argument("--data", default="sst2", help="a processed task")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--csv", type=Path, default=Path("benchmarks/distillation.csv"))
    arguments = parser.parse_args()
    task = read_task(Path("data/processed") / arguments.data)
    train, split = task.read_split("train"), task.read_split(task.report_split)
    built = {name: build(name, task, train) for name in arguments.models}
    teacher, *_ = built
    rows = []
    for size in BATCH_SIZES:
        batches = {name: cut_batches(item, split, size) for name, (_, item) in built.items()}
        numbers = {name: STUDENT_SENTENCES[size] for name in built} | {
            teacher: TEACHER_SENTENCES[size]
        }
        found: dict[str, list[Speed]] = {name: [] for name in built}
        for number in range(-1, arguments.rounds):
            for name, (model, _) in built.items():
                speed = answer(model, batches[name], numbers[name], max(number, 0) * numbers[name])
                if number >= 0:
                    found[name].append(speed)
        rows += [
            describe(name, built[name][0], size, found[name], found[teacher]) for name in built
        ]
    with arguments.csv.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    for row in rows:
        print("  ".join(f"{key} {value}" for key, value in row.items()))


def describe(
    name: str, model: GraphModel, size: int, speeds: list[Speed], teacher: list[Speed]
) -> dict[str, object]:
    """Return a row of the file."""
    pairs = list(zip(speeds, teacher, strict=True))
    parameters = count_parameters(model)["total"]
    return {
        "model": name.partition(":")[0],
        "batch_size": size,
        "parameters": parameters,
        "megabytes": round(parameters * 4 / 1e6, 1),
        "qps_wall": round(statistics.median(speed.wall for speed in speeds), 1),
        "qps_processor": round(statistics.median(speed.processor for speed in speeds), 1),
        "ratio_wall": round(statistics.median(a.wall / b.wall for a, b in pairs), 2),
        "ratio_processor": round(statistics.median(a.processor / b.processor for a, b in pairs), 2),
        "rounds": len(speeds),
        "threads": torch.get_num_threads(),
        "processor": name_processor(),
        "torch": torch.__version__,
    }


if __name__ == "__main__":
    main()
