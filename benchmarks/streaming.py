"""Measure the peak memory of `reglue train` on a large file: `python benchmarks/streaming.py`.

Makes a two-column TSV, a model file for it with `reglue new`, and trains for a few steps. The bar
for ten million rows is 2 GB.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

ROOT = Path(__file__).resolve().parent.parent
BAR_GIB = 2.0
KIB_A_GIB = 1 << 20
ROWS_A_CHUNK = 100_000
LABELS = ["news", "sport", "film", "food", "law"]
WORDS = 500_000
COMMAND = "from nlp_core.cli import main; main()"


def main() -> None:
    """Exit with 1 above the bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--words", type=int, default=10, help="words a row, on average")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--folder", type=Path, help="where the file and the cache go (temporary)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        peak = measure(Path(name), arguments.rows, arguments.words, arguments.steps)
    raise SystemExit(peak > BAR_GIB)


def measure(folder: Path, rows: int, words: int, steps: int) -> float:
    """Return the peak of `reglue train` in GiB."""
    path = folder / "rows.tsv"
    started = time.perf_counter()
    write_rows(path, rows, words)
    size = path.stat().st_size / 1e9
    print(f"made {rows} rows, {size:.2f} GB in {time.perf_counter() - started:.0f} s", flush=True)
    model = str(folder / "model.json")
    run(folder, "new", "classification", "--train", str(path), "-o", model)
    started = time.perf_counter()
    options = ["--set", f"training.max_steps={steps}", "--set", "data.tokens=spaces"]
    said = run(folder, "train", model, "--train", str(path), "-o", str(folder / "out"), *options)
    # The maximum over the children that have ended; the file was made in this process.
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / KIB_A_GIB
    seconds = time.perf_counter() - started
    print("\n".join(line for line in said.split("\n") if "rows" in line or "validate" in line))
    print(f"reglue train: {steps} steps in {seconds:.0f} s, peak {peak:.2f} GiB (bar {BAR_GIB})")
    return peak


def write_rows(path: Path, rows: int, words: int) -> None:
    """Write rows whose words follow Zipf's law; one of the words determines the label."""
    generator = np.random.default_rng(0)
    lexicon = pa.array([f"w{number}" for number in range(WORDS)])
    ends = pa.array([f" sign{number}\t{label}\n" for number, label in enumerate(LABELS)])
    with path.open("wb") as file:
        for start in range(0, rows, ROWS_A_CHUNK):
            size = min(ROWS_A_CHUNK, rows - start)
            offsets = np.concatenate([[0], generator.integers(1, 2 * words, size).cumsum()])
            drawn = (generator.zipf(1.3, offsets[-1]) - 1) % WORDS
            parts = pa.ListArray.from_arrays(offsets.astype(np.int32), lexicon.take(drawn))
            labels = ends.take(generator.integers(len(LABELS), size=size))
            lines = pc.binary_join_element_wise(pc.binary_join(parts, " "), labels, "")
            file.write("".join(lines.to_pylist()).encode())


def run(folder: Path, *arguments: str) -> str:
    """Run a command of reglue with a separate cache, and return its log."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "REGLUE_CACHE": str(folder / "cache")}
    command = [sys.executable, "-c", COMMAND, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return done.stderr


if __name__ == "__main__":
    main()
