"""What vendor-independent arithmetic costs: training with it and with torch's own kernels (MKL).

    python benchmarks/arithmetic_cost.py [CELL ...] [--rounds N] [--steps N]

Two processes train the same cell in turn, one thread each, so that a busy machine slows both.
Prints medians over the rounds, in sentences a second of processor time, and the median ratio.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import cycle
from pathlib import Path

CELLS = ["ccnn_wlstm_crf", "bilstm_matchattn", "sst2_minilm"]


def serve(name: str, *, installed: bool) -> None:
    """Train as many steps as each line of the standard input says, and print the speed."""
    from nlp_core import arithmetic

    if not installed:
        arithmetic.install = lambda: None  # before a block is imported, which calls it
    from nlp_core.config.params import read_params
    from nlp_core.data.batching import order_training_batches
    from nlp_core.training.cell import read_cell
    from nlp_core.training.determinism import seed_everything
    from nlp_core.training.loop import Trainer
    from nlp_core.training.run import prepare_tasks

    cell = read_cell(name, read_params(Path("params.yaml")))
    seed_everything(1)
    model, _, tasks = prepare_tasks(cell)
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder) / "none"
        trainer = Trainer(model, tasks, recipe=cell.recipe, seed=1, checkpoint=checkpoint)
    batches = cycle(
        order_training_batches(
            tasks[0].train.lengths,
            batch_size=cell.recipe.batch_size,
            bucket_batches=cell.recipe.bucket_batches,
            seed=1,
            epoch=1,
        )
    )
    print("ready", flush=True)
    for line in sys.stdin:
        rows = [next(batches) for _ in range(int(line))]
        start = time.process_time()
        for item in rows:
            trainer.step(cell.task.name, item)
        seconds = time.process_time() - start
        print(sum(len(item) for item in rows) / seconds, flush=True)


def compare(name: str, rounds: int, steps: int) -> None:
    """Train a cell both ways in turn and print the speeds."""
    processes = {
        way: subprocess.Popen(
            [sys.executable, __file__, "--serve", way, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for way in ("torch", "ours")
    }

    def ask(process: subprocess.Popen[str], count: int) -> float:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{count}\n")
        process.stdin.flush()
        return float(process.stdout.readline())

    for process in processes.values():
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", f"{name}: the training did not start"
        ask(process, 3)
    found: dict[str, list[float]] = {way: [] for way in processes}
    for _ in range(rounds):
        for way, process in processes.items():
            found[way].append(ask(process, steps))
    for process in processes.values():
        process.terminate()
    ratios = [ours / torch for ours, torch in zip(found["ours"], found["torch"], strict=True)]
    torch_speed, ours = (statistics.median(found[way]) for way in ("torch", "ours"))
    print(
        f"{name:20} torch {torch_speed:7.0f}  ours {ours:7.0f}"
        f"  ratio {statistics.median(ratios):.3f}"
        f"  ({min(ratios):.3f} to {max(ratios):.3f})"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cells", nargs="*", default=CELLS)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--serve", choices=["torch", "ours"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.cells[0], installed=arguments.serve == "ours")
        return
    for name in arguments.cells:
        compare(name, arguments.rounds, arguments.steps)


if __name__ == "__main__":
    main()
