"""Count how often the 95 % intervals hold the true mean: `python benchmarks/interval_coverage.py`.

Models and examples are drawn from a population whose mean is known: an example has a difficulty, a
seed a skill, and each pair of them a chance of its own. The bar is a mean coverage of 93 to 97 %.
The last column says how often the first test finds a difference between two equally good cells; a
report also asks the swap of examples.
"""

import argparse
import sys
from itertools import product
from pathlib import Path

import numpy as np
from scipy.special import expit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from nlp_core.statistics import SumScore, find_p_value, resample

BAR = (93.0, 97.0)
SIZES = (277, 872, 2000)  # examples of RTE, of SST-2, and of a larger test set
SEEDS = (3, 5)
SKILLS = (0.0, 0.1, 0.3)  # standard deviations of seeds, in logits: about 0, 0.9 and 2.8 points
LEAD, DIFFICULTY, CHANCE = 2.0, 2.0, 1.0  # mean and spread of the other effects, in logits
POPULATION = 1_000_000
ROUNDS = 500


def draw_cells(
    draw: np.random.Generator, examples: int, seeds: int, skill: float
) -> list[SumScore]:
    """Return two cells that are equally good, on the same examples."""
    difficulty = draw.normal(LEAD, DIFFICULTY, examples)
    cells = []
    for _ in range(2):
        logit = difficulty + draw.normal(0, skill, (seeds, 1))
        logit = logit + draw.normal(0, CHANCE, (seeds, examples))
        hits = (logit > draw.logistic(size=logit.shape)).astype(float)
        summands = np.stack([hits, np.ones_like(hits)], 2)
        cells.append(SumScore(summands, lambda sums: 100 * sums[..., 0] / sums[..., 1]))
    return cells


def find_truth(skill: float) -> float:
    """Return the mean over all examples and all seeds, in points."""
    spread = np.sqrt(DIFFICULTY**2 + CHANCE**2 + skill**2)
    draw = np.random.default_rng(1)
    return float(100 * expit(draw.normal(LEAD, spread, POPULATION)).mean())


def main() -> None:
    """Print a row for each size, number of seeds and spread of seeds; fail outside the bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=400)
    trials = parser.parse_args().trials
    draw, covered = np.random.default_rng(0), []
    print("examples  seeds  skill  coverage  width  false alarms")
    for examples, seeds, skill in product(SIZES, SEEDS, SKILLS):
        truth, hits, width, alarms = find_truth(skill), 0, 0.0, 0
        for _ in range(trials):
            cells = dict(zip("ab", draw_cells(draw, examples, seeds, skill), strict=True))
            found = {name: resample(cell, rounds=ROUNDS) for name, cell in cells.items()}
            low, high = found["a"].interval
            hits += low <= truth <= high
            width += (high - low) / trials
            alarms += find_p_value(found["a"], found["b"]) < 0.05
        covered.append(100 * hits / trials)
        line = f"{examples:8d} {seeds:6d} {skill:6.1f} {covered[-1]:8.1f} % {width:6.2f}"
        print(f"{line} {100 * alarms / trials:9.1f} %", flush=True)
    mean = sum(covered) / len(covered)
    print(f"mean coverage {mean:.1f} %, bar {BAR[0]:.0f} to {BAR[1]:.0f} %")
    if not BAR[0] <= mean <= BAR[1]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
