"""Time of a step in shards relative to a plain one, in one process, on a cell of the grid.

    python benchmarks/shard_overhead.py [CELL ...] [--shards N] [--rounds N] [--steps N]

The same batches train two copies of the cell's model in turn, one thread. Prints medians over the
rounds: milliseconds of processor time per step, and the ratio of each pair. The bar for 4 shards is
1.1. A step of N shards calls each operation N times on an N-th of the examples, so a small network
on small batches, whose time goes to the calls, pays most.
"""

import argparse
import statistics
from pathlib import Path

from steps import Run, build_run, time_in_turn

from nlp_core.config.params import Params, read_params
from nlp_core.config.recipe import RecipeConfig
from nlp_core.training.cell import read_cell
from nlp_core.training.determinism import seed_everything
from nlp_core.training.run import prepare_tasks

CELLS = ["cnn", "rte_minilm"]


def build(name: str, params: Params, shards: int | None) -> Run:
    cell = read_cell(name, params)
    seed_everything(1)
    model, _, (task,) = prepare_tasks(cell)
    values = {**cell.recipe.model_dump(mode="json"), "shards": shards}
    return build_run(model, cell.task, task.train, RecipeConfig.model_validate(values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cells", nargs="*", default=CELLS)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=50)
    options = parser.parse_args()
    params = read_params(Path("params.yaml"))
    print(f"ms per step, medians of {options.rounds} rounds, one thread, {options.shards} shards")
    print(f"{'':22}{'plain':>8}{'shards':>8}{'ratio':>8}")
    for name in options.cells:
        runs = {str(number): build(name, params, number) for number in (None, options.shards)}
        found = time_in_turn(runs, rounds=options.rounds, steps=options.steps)
        plain, sharded = ([item.seconds for item in found[key]] for key in runs)
        times = [1000 * statistics.median(item) / options.steps for item in (plain, sharded)]
        ratio = statistics.median(b / a for a, b in zip(plain, sharded, strict=True))
        print(f"{name:22}{times[0]:8.1f}{times[1]:8.1f}{ratio:8.2f}", flush=True)


if __name__ == "__main__":
    main()
