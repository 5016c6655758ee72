"""Speed of fine-tuning a pretrained encoder relative to the Trainer of the library transformers.

    python benchmarks/finetuning_speed.py [--encoder FOLDER] [--task NAME] [--rounds N] [--steps N]

Both fine-tune the same weights on the same sentences in turn: batches of 32, at most 128 pieces,
one thread, float32. Trainer is set up as in the library's GLUE example with `--pad_to_max_length
False`: texts cut into pieces beforehand, batches in random order padded to their longest text,
AdamW, a linear schedule; its process has torch's own kernels. Ours is a cell of the grid: batches
of similar lengths, AdamW, warm-up and a linear schedule.

Prints medians over the rounds: sentences per second of processor time, and the ratio. Then the
operations per second in the matrix products of our encoder, for tokens without padding, and their
share of what a product of two square matrices reaches in the same rounds. The bars are a ratio of
3 and a share of 72 %.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

from steps import Run, Timing, build_run, serve, start, time_in_turn

from nlp_core.config.optimizer import OptimizerConfig
from nlp_core.config.recipe import RecipeConfig
from nlp_core.config.schedule import WarmupLinearSchedule
from nlp_core.data.task import Split, Task, read_task
from nlp_core.models.features import Featurizer
from nlp_core.models.graph import build_model
from nlp_core.models.plan import read_plan
from nlp_core.training.determinism import seed_everything

import numpy as np  # isort: skip  # after nlp_core, which pins threads and instruction set
import transformers  # isort: skip

RATIO_BAR = 3.0
SHARE_BAR = 0.72
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


class Clock(transformers.TrainerCallback):
    """Processor time from the first to the last step of Trainer."""

    def __init__(self) -> None:
        self.first: float | None = None
        self.last = 0.0

    def on_step_begin(self, *args: object, **kwargs: object) -> None:
        if self.first is None:
            self.first = time.process_time()

    def on_step_end(self, *args: object, **kwargs: object) -> None:
        self.last = time.process_time()


def build_ours(task: Task, train: Split, encoder: Path) -> Run:
    seed_everything(1)
    plan = read_plan(MODEL)
    featurizer = Featurizer.build(plan, task, train, encoder)
    model = build_model(plan, featurizer, kind=task.kind)
    return build_run(model, task, featurizer.encode(train), RECIPE)


def build_theirs(task: Task, train: Split, encoder: Path) -> Run:
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

    def run(num_steps: int) -> Timing:
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
        return Timing(num_steps * BATCH, clock.last - clock.first)

    return run


def build_product(size: int = 1024) -> Run:
    """Return the product of two square matrices; a step of its timing is one product."""
    left, right = np.random.default_rng(1).random((2, size, size), dtype=np.float32)

    def run(num_steps: int) -> Timing:
        started = time.process_time()
        for _ in range(num_steps):
            left @ right
        return Timing(num_steps, time.process_time() - started, 2 * num_steps * size**3)

    return run


def count_operations(encoder: Path) -> int:
    """Return the operations of a training step in an encoder's matrix products, per token.

    Each weight of a layer takes part in a multiplication and an addition, once forward and twice
    backward; products of attention scores are left out.
    """
    config = json.loads((encoder / "config.json").read_text(encoding="utf-8"))
    width, inner = int(config["hidden_size"]), int(config["intermediate_size"])
    return 3 * 2 * int(config["num_hidden_layers"]) * (4 * width * width + 2 * width * inner)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--encoder", type=Path, default=Path("data/processed/minilm"))
    parser.add_argument("--task", default="sst2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    task = read_task(Path("data/processed") / options.task)
    train = task.read_split("train")
    if options.serve:
        serve(build_theirs(task, train, options.encoder))
        return
    runs = {
        "Trainer": start(
            __file__, "--serve", "--task", options.task, "--encoder", str(options.encoder)
        ),
        "ours": build_ours(task, train, options.encoder),
        "product": build_product(),
    }
    found = time_in_turn(runs, rounds=options.rounds, steps=options.steps)
    print(
        f"{options.task}: sentences per second of processor time, medians of {options.rounds} "
        f"rounds of {options.steps} steps, one thread"
    )
    for name in ("Trainer", "ours"):
        print(f"{name:10}{statistics.median(item.speed for item in found[name]):8.1f}")
    pairs = zip(found["ours"], found["Trainer"], strict=True)
    ratio = statistics.median(ours.speed / other.speed for ours, other in pairs)
    print(f"{'ratio':10}{ratio:8.2f}  (bar: {RATIO_BAR})")
    each = count_operations(options.encoder)
    reached = [1e-9 * each * item.tokens / item.seconds for item in found["ours"]]
    peak = [1e-9 * item.tokens / item.seconds for item in found["product"]]
    share = statistics.median(ours / most for ours, most in zip(reached, peak, strict=True))
    print(
        f"{statistics.median(reached):.0f} of {statistics.median(peak):.0f} GFLOP/s: "
        f"{100 * share:.0f} % (bar: {100 * SHARE_BAR:.0f} %)"
    )


if __name__ == "__main__":
    main()
