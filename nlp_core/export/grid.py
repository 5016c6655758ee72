"""Time bundles at several lengths and batch sizes, each in a process that runs only that bundle.

`python -m nlp_core.export.grid` is such a process: it reads a request from standard input and
prints the seconds of each batch and the most memory that it held.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import islice, product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nlp_core.errors import DataError
from nlp_core.export.latency import PERCENTILES, time_each
from nlp_core.processor import measure_peak
from reglue_runtime import Bundle, BundleError, load
from reglue_runtime.manifest import PROGRAM, read_manifest

WARM_UP = 3  # batches
MIB = 2**20


class GridTiming(NamedTuple):
    """A bundle at one length of texts and one batch size.

    Milliseconds are of a batch, featurising included, by percentile.
    """

    name: str
    length: int
    batch_size: int
    milliseconds: dict[int, float]
    per_second: float
    peak_mib: float


def load_bundle(folder: Path, threads: int) -> Bundle:
    """Load a bundle of any variant.

    Raises:
        DataError: the bundle is broken.
    """
    try:
        if read_manifest(folder).variant != PROGRAM:
            return load(folder, num_threads=threads)
        # here, since only this variant needs torch
        import torch

        from nlp_core.export.program import load_any

        torch.set_num_threads(threads)
        return load_any(folder)
    except BundleError as err:
        raise DataError(str(err)) from err


def time_grid(
    bundles: Sequence[Path],
    texts: Sequence[str],
    *,
    lengths: Sequence[int],
    batch_sizes: Sequence[int],
    batches: int,
    threads: int,
    seed: int,
) -> list[GridTiming]:
    """Time each bundle at each length and batch size.

    Args:
        texts: whose words, in random order of the texts, make texts of each length.
        batches: number of batches that are timed at each point.

    Raises:
        DataError: a bundle is broken, or its process ended early.
    """
    points = []
    for folder, length, size in product(bundles, lengths, batch_sizes):
        made = make_texts(texts, length, (batches + WARM_UP) * size, seed)
        inputs = [made[start : start + size] for start in range(0, len(made), size)]
        request = {"bundle": str(folder), "threads": threads, "batches": inputs}
        seconds_N, peak = _run(request)
        percentiles = np.percentile(1000 * seconds_N, PERCENTILES).tolist()
        points.append(
            GridTiming(
                str(folder),
                length,
                size,
                dict(zip(PERCENTILES, percentiles, strict=True)),
                size * len(seconds_N) / float(seconds_N.sum()),
                peak / MIB,
            )
        )
    return points


def make_texts(texts: Sequence[str], length: int, count: int, seed: int) -> list[str]:
    """Return texts of a number of words, which follow one another in the given texts."""
    generator = np.random.default_rng(seed)

    def draw() -> Iterator[str]:
        while True:
            for idx in generator.permutation(len(texts)):
                yield from texts[idx].split()

    words = draw()
    return [" ".join(islice(words, length)) for _ in range(count)]


def _run(request: dict[str, object]) -> tuple[np.ndarray, int]:
    command = [sys.executable, "-m", "nlp_core.export.grid"]
    done = subprocess.run(command, input=json.dumps(request), capture_output=True, text=True)
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines()[-1:] or [f"code {done.returncode}"]
        raise DataError(
            f"{request['bundle']}: the process that timed it ended early ({reason[0]}); expected "
            "a bundle that reads single texts. Check it with `reglue bench` without --lengths."
        )
    answer = json.loads(done.stdout)
    return np.array(answer["seconds"]), answer["peak"]


def main() -> None:
    request = json.load(sys.stdin)
    bundle = load_bundle(Path(request["bundle"]), request["threads"])
    found = time_each({"": bundle}, request["batches"])[""][WARM_UP:]
    print(json.dumps({"seconds": found.sum(1).tolist(), "peak": measure_peak()}))


if __name__ == "__main__":
    main()
