"""Speed of fine-tuning a pretrained encoder beside the Trainer of the library transformers.

    python benchmarks/finetuning_speed.py [--encoder FOLDER] [--task NAME] [--rounds N] [--steps N]

Both fine-tune the same weights on the same sentences, batches of 32, at most 128 pieces, one
thread, float32, in turn within one process, so that a busy machine slows both; printed are
sentences a second, medians over the rounds, and the ratio. Trainer runs as the library's example
script for GLUE sets it up with `--pad_to_max_length False`: texts cut into pieces beforehand,
batches in random order, each padded to its longest text, AdamW, a linear fall of the learning rate.
Ours is a cell as the grid has it: batches of like lengths, AdamW, a rise and a linear fall of the
learning rate. The bar is 1.5.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

from nlp_core.config.recipe import OptimizerConfig, RecipeConfig, WarmupLinearSchedule
from nlp_core.data.batching import order_training_batches
from nlp_core.data.task import Split, Task, read_task
from nlp_core.models.features import Featurizer
from nlp_core.models.graph import build_model
from nlp_core.models.plan import read_plan
from nlp_core.training.determinism import seed_everything
from nlp_core.training.loop import Trainer
from nlp_core.training.task_run import TaskRun

import transformers  # isort: skip  # after nlp_core, which pins threads and instruction set

BAR = 1.5
BATCH = 32
MODEL = Path("zoo/mtdnn/minilm.json")
RECIPE = RecipeConfig(
    source="a benchmark",
    optimizer=OptimizerConfig(name="adamw", lr=2e-5, weight_decay=0.01, decayed="matrices"),
    schedule=WarmupLinearSchedule(name="warmup_linear", warmup=0.1),
    batch_size=BATCH,
    epochs=3,
    clip_norm=1.0,
)
Run = Callable[[int], float]
"""Makes a number of steps and returns sentences a second."""


class Clock(transformers.TrainerCallback):
    """Notes when a step of Trainer begins and ends."""

    def __init__(self) -> None:
        self.first: float | None = None
        self.last = 0.0

    def on_step_begin(self, *args: object, **kwargs: object) -> None:
        """Note the beginning of the first step."""
        if self.first is None:
            self.first = time.process_time()

    def on_step_end(self, *args: object, **kwargs: object) -> None:
        """Note the end of the step."""
        self.last = time.process_time()


def build_ours(task: Task, train: Split, encoder: Path) -> Run:
    """Return our side."""
    seed_everything(1)
    plan = read_plan(MODEL)
    featurizer = Featurizer.build(plan, task, train, encoder)
    encoded = featurizer.encode(train)
    model = build_model(plan, featurizer, kind=task.kind)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model,
            [TaskRun(task, model, {"train": encoded}, {})],
            recipe=RECIPE,
            seed=1,
            checkpoint=Path(folder) / "none",
        )
    batches = cycle(
        order_training_batches(
            encoded.lengths,
            batch_size=BATCH,
            bucket_batches=RECIPE.bucket_batches,
            seed=1,
            epoch=1,
        )
    )

    def run(num_steps: int) -> float:
        rows = [next(batches) for _ in range(num_steps)]
        started = time.process_time()
        for item in rows:
            trainer.step(task.name, item)
        return sum(len(item) for item in rows) / (time.process_time() - started)

    return run


def build_theirs(task: Task, train: Split, encoder: Path) -> Run:
    """Return the side of Trainer."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(encoder)
    column = train.texts["tokens"]
    texts = [" ".join(column.row(row)) for row in range(len(train))]
    pieces = tokenizer(texts, truncation=True, max_length=128)
    labels = {name: idx for idx, name in enumerate(task.labels)}
    examples = [
        {**{key: pieces[key][row] for key in pieces}, "labels": labels[label]}
        for row, label in enumerate(train.target)
    ]
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        encoder, num_labels=len(labels)
    )
    seeds = iter(range(1, 1000))

    def run(num_steps: int) -> float:
        clock = Clock()
        with tempfile.TemporaryDirectory() as folder:
            arguments = transformers.TrainingArguments(
                output_dir=folder,
                per_device_train_batch_size=BATCH,
                learning_rate=2e-5,
                num_train_epochs=3,
                max_steps=num_steps,
                seed=next(seeds),
                use_cpu=True,
                report_to=[],
                save_strategy="no",
                disable_tqdm=True,
            )
            transformers.Trainer(
                model=model,
                args=arguments,
                train_dataset=examples,
                data_collator=transformers.DataCollatorWithPadding(tokenizer),
                callbacks=[clock],
            ).train()
        assert clock.first is not None
        return num_steps * BATCH / (clock.last - clock.first)

    return run


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--encoder", type=Path, default=Path("data/processed/minilm"))
    parser.add_argument("--task", default="sst2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30)
    arguments = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    task = read_task(Path("data/processed") / arguments.task)
    train = task.read_split("train")
    runs = {
        "Trainer": build_theirs(task, train, arguments.encoder),
        "ours": build_ours(task, train, arguments.encoder),
    }
    for run in runs.values():
        run(3)
    found: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(arguments.rounds):
        for name, run in runs.items():
            found[name].append(run(arguments.steps))
    print(
        f"{arguments.task}: sentences a second of processor time, medians of "
        f"{arguments.rounds} rounds of {arguments.steps} steps, one thread (bar: {BAR})"
    )
    for name, values in found.items():
        print(f"{name:8}{statistics.median(values):10.1f}")
    pairs = zip(found["ours"], found["Trainer"], strict=True)
    print(f"ratio   {statistics.median(ours / theirs for ours, theirs in pairs):10.2f}")


if __name__ == "__main__":
    main()
