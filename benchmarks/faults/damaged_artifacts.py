"""Damage artifacts and use them: `python benchmarks/faults/damaged_artifacts.py [--damages 8]`.

Processed data, vectors, cells, predictions, an ensemble, a bundle, a folder of `reglue train` and
an index are made; then one of their files has a flipped bit or misses its end. Each damage must
raise an error before anything is computed. Prints the counts; exit code 1 if one went unnoticed.
"""

import argparse
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import chdir
from functools import partial
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from benchmarks.faults.small_project import STAGES, finish, write_small_project
from nlp_core.cli import main as reglue
from nlp_core.config.base import read_mapping
from nlp_core.config.params import read_params
from nlp_core.data.task import read_task
from nlp_core.data.word_vectors import read_table
from nlp_core.errors import NlpCoreError
from nlp_core.prediction.passage_index import PassageIndex
from nlp_core.prediction.retriever import Retriever
from nlp_core.prediction.trained_model import TrainedModel
from nlp_core.report.evaluation import evaluate_cell
from reglue_runtime import BundleError, load

SMALL = ("--epochs", "1", "--set", "layers.word.dim=8", "--set", "layers.lstm.hidden_dim=8")
ROWS = [f"what is item {idx} ?\tthis is item {idx} .\n" for idx in range(12)]
CELLS = Path("artifacts/cells")


class Artifact(NamedTuple):
    """What can be damaged.

    Attributes:
        root: folder that `use` runs in.
        files: that are damaged, one at a time.
        use: reads all of them.
    """

    name: str
    root: Path
    files: list[Path]
    use: Callable[[], object]


def list_artifacts(folder: Path) -> Iterator[Artifact]:
    """Make the artifacts in a folder, and yield them."""
    root = folder / "project"
    write_small_project(root)
    for stage in STAGES:
        if stage.name not in ("pretrain", "evaluate", "report"):
            finish(stage, root)
    task, vectors = root / "data/processed/sample_sentence", root / "data/processed/sample_vectors"
    yield Artifact("processed data", root, sorted(task.glob("*.parquet")), partial(_read, task))
    table = partial(read_table, vectors, "50d", 50)
    yield Artifact("vectors", root, [vectors / "50d.safetensors"], table)
    for name in ("old", "both"):
        cell = root / CELLS / "small" / name
        weights = sorted(cell.glob("seed-1/**/model.safetensors"))
        yield Artifact(f"weights of {name}", root, weights, partial(TrainedModel.open, cell))
        predictions = sorted(cell.glob("seed-*/predictions/*.parquet"))
        yield Artifact(f"predictions of {name}", root, predictions, partial(_evaluate, root, name))
    bundle = root / CELLS / "bundles/shipped/float32"
    yield Artifact("bundle", root, [bundle / "model.onnx"], partial(load, bundle))
    yield from _list_own(folder / "own")


def _list_own(root: Path) -> Iterator[Artifact]:
    """Train a model of pairs, and index its passages."""
    root.mkdir()
    (root / "a.tsv").write_text("query\tpassage\n" + "".join(ROWS))
    with chdir(root):
        reglue(["new", "retrieval", "--train", "a.tsv", "-o", "m.json", "--quiet"])
        reglue(["train", "m.json", "--train", "a.tsv", "-o", "out", "--quiet", *SMALL])
        reglue(["index", "out", "--data", "a.tsv", "-o", "index", "--quiet"])
    names = read_mapping(root / "out/run.json")["digests"]
    files = [root / "out" / name for name in sorted(names) if name != "history.jsonl"]
    yield Artifact("user's model", root, files, partial(TrainedModel.open, root / "out"))
    index = [root / "index/vectors.faiss", root / "index/passages.parquet"]
    yield Artifact("index", root, index, partial(_search, root))


def _read(folder: Path) -> None:
    task = read_task(folder)
    for path in sorted(folder.glob("*.parquet")):
        task.read_split(path.stem)


def _evaluate(root: Path, cell: str) -> None:
    evaluate_cell(cell, read_params(root / "params.yaml"), root)


def _search(root: Path) -> None:
    PassageIndex.open(root / "index", Retriever.of_trained(TrainedModel.open(root / "out")))


def damage(content: bytes, seed: int) -> bytes:
    """Return a content with one bit flipped, or without its end."""
    draw = random.Random(seed)
    place = draw.randrange(len(content))
    if draw.random() < 0.3:
        return content[:place]
    return content[:place] + bytes([content[place] ^ 1 << draw.randrange(8)]) + content[place + 1 :]


def run_artifact(artifact: Artifact, damages: int, seed: int) -> list[str]:
    """Damage an artifact some times; return the files whose damage went unnoticed."""
    unnoticed = []
    with chdir(artifact.root):
        artifact.use()
        for number in range(damages):
            path = artifact.files[number % len(artifact.files)]
            whole = path.read_bytes()
            path.unlink()  # the file may be linked elsewhere
            path.write_bytes(damage(whole, seed + number))
            try:
                artifact.use()
                unnoticed.append(path.relative_to(artifact.root).as_posix())
            except (NlpCoreError, BundleError):
                pass
            finally:
                path.write_bytes(whole)
    return unnoticed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--damages", type=int, default=8, help="of each artifact")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    total = faults = 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ["REGLUE_CACHE"] = f"{folder}/cache"
        for artifact in list_artifacts(Path(folder)):
            unnoticed = run_artifact(artifact, options.damages, options.seed)
            total, faults = total + options.damages, faults + len(unnoticed)
            print(f"{artifact.name:22} {options.damages} damages, unnoticed: {unnoticed or 'none'}")
    print(f"{total} damages, {faults} unnoticed")
    raise SystemExit(1 if faults else 0)


if __name__ == "__main__":
    main()
