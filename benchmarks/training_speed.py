"""Training speed of a tagging cell beside a plain implementation of the same network.

    python benchmarks/training_speed.py [CELL] [--rounds N] [--steps N]

Both train on the cell's own data, one thread, in turn within one process, so that a busy machine
slows both; printed are medians over the rounds and the ratio. The plain implementation is what one
writes first: batches in random order padded to their longest sentence, a character CNN over every
padded token, a packed bidirectional LSTM, a CRF that walks over each sentence in Python, and an
optimiser that is not fused.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

from nlp_core.config.params import read_params
from nlp_core.data.batching import order_training_batches
from nlp_core.data.task import read_task
from nlp_core.kinds import TAGS
from nlp_core.models.features import Batch, EncodedSplit, Featurizer
from nlp_core.models.graph import GraphModel, build_model
from nlp_core.training.cell import Cell, read_cell
from nlp_core.training.determinism import seed_everything
from nlp_core.training.loop import Trainer
from nlp_core.training.task_run import TaskRun

import torch  # isort: skip  # after nlp_core, which pins threads and instruction set
from torch import Tensor, nn  # isort: skip
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence  # isort: skip


class PlainTagger(nn.Module):
    """Words, character CNN, packed BiLSTM and a CRF in Python loops."""

    def __init__(self, words: list[Tensor], num_characters: int, num_labels: int) -> None:
        super().__init__()
        self.words = nn.ModuleList(nn.Embedding.from_pretrained(w, freeze=False) for w in words)
        self.characters = nn.Embedding(num_characters, 30, padding_idx=0)
        self.convolution = nn.Conv1d(30, 50, 3, padding=1)
        width = sum(w.shape[1] for w in words) + 50
        self.lstm = nn.LSTM(width, 100, bidirectional=True, batch_first=True)
        self.dropout = nn.Dropout(0.5)
        self.out = nn.Linear(200, num_labels)
        self.transitions = nn.Parameter(torch.zeros(num_labels, num_labels))

    def loss(self, batch: Batch) -> Tensor:
        """Return the mean negative log-likelihood of the tags."""
        features = dict(batch.features)
        spellings, index = features.pop("character")
        ids = [ids for (ids,) in features.values()]
        characters = self.characters(spellings[index])
        B, T, C, K = characters.shape
        convolved = self.convolution(characters.view(B * T, C, K).transpose(1, 2))
        parts = [
            table(i.clamp(max=len(table.weight) - 1))
            for table, i in zip(self.words, ids, strict=True)
        ]
        x = self.dropout(torch.cat([*parts, convolved.amax(2).view(B, T, -1)], -1))
        lengths = batch.masks["words"].sum(1)
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        hidden, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        scores = self.out(self.dropout(hidden))
        tags = batch.targets[TAGS]
        losses = [
            self._sentence_loss(scores[i, :length], tags[i, :length])
            for i, length in enumerate(lengths.tolist())
        ]
        return torch.stack(losses).mean()

    def _sentence_loss(self, scores: Tensor, tags: Tensor) -> Tensor:
        alpha = scores[0]
        gold = scores[0, tags[0]]
        for t in range(1, len(scores)):
            alpha = torch.logsumexp(alpha[:, None] + self.transitions, 0) + scores[t]
            gold = gold + self.transitions[tags[t - 1], tags[t]] + scores[t, tags[t]]
        return torch.logsumexp(alpha, 0) - gold


def build_ours(cell: Cell, train: EncodedSplit, model: GraphModel) -> Callable[[int], int]:
    """Return a function that makes a number of steps and returns the sentences seen."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model,
            [TaskRun(cell.task, model, {"train": train}, {})],
            recipe=cell.recipe,
            seed=1,
            checkpoint=Path(folder) / "none",
        )
    batches = cycle(order(cell, train, bucket_batches=cell.recipe.bucket_batches))

    def run(num_steps: int) -> int:
        rows = [next(batches) for _ in range(num_steps)]
        for item in rows:
            trainer.step(cell.task.name, item)
        return sum(len(item) for item in rows)

    return run


def build_plain(cell: Cell, train: EncodedSplit, ours: GraphModel) -> Callable[[int], int]:
    """Return the same for the plain implementation."""
    blocks = ours.blocks
    words = [blocks[name].weight.detach().clone() for name in ("word_100", "word_50")]
    characters = blocks["character"].table.weight
    model = PlainTagger(words, len(characters), len(cell.task.labels))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, foreach=False)
    batches: Iterator[object] = cycle(order(cell, train, bucket_batches=0))

    def run(num_steps: int) -> int:
        seen = 0
        for _ in range(num_steps):
            batch = train.batch(next(batches))
            optimizer.zero_grad()
            model.loss(batch).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            seen += len(batch.rows)
        return seen

    return run


def order(cell: Cell, train: EncodedSplit, *, bucket_batches: int) -> list:
    """Return the batches of one epoch."""
    return order_training_batches(
        train.lengths,
        batch_size=cell.recipe.batch_size,
        bucket_batches=bucket_batches,
        seed=1,
        epoch=1,
    )


def measure(run: Callable[[int], int], num_steps: int) -> tuple[float, float]:
    """Return sentences a second of wall time and of processor time."""
    wall, processor = time.perf_counter(), time.process_time()
    seen = run(num_steps)
    return seen / (time.perf_counter() - wall), seen / (time.process_time() - processor)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cell", nargs="?", default="ccnn_wlstm_crf")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=40)
    arguments = parser.parse_args()
    cell = read_cell(arguments.cell, read_params(Path("params.yaml")))
    task = read_task(Path("data/processed") / cell.task.name)
    split = task.read_split("train")
    seed_everything(1)
    featurizer = Featurizer.build(cell.plan, task, split, cell.init)
    train = featurizer.encode(split)
    model = build_model(cell.plan, featurizer, kind=task.kind)
    runs = {"plain": build_plain(cell, train, model), "ours": build_ours(cell, train, model)}
    for run in runs.values():
        run(5)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for _ in range(arguments.rounds):
        for name, run in runs.items():
            found[name].append(measure(run, arguments.steps))
    print(f"{cell.name}: sentences a second, medians of {arguments.rounds} rounds, one thread")
    print(f"{'':8}{'wall':>10}{'processor':>12}")
    for name, values in found.items():
        wall, processor = (statistics.median(column) for column in zip(*values, strict=True))
        print(f"{name:8}{wall:10.0f}{processor:12.0f}")
    pairs = zip(found["ours"], found["plain"], strict=True)
    ratio = statistics.median(ours[1] / plain[1] for ours, plain in pairs)
    print(f"ratio   {ratio:10.2f}  (processor time, median of the rounds)")


if __name__ == "__main__":
    main()
