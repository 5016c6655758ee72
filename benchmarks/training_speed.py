"""Training speed of a tagging cell relative to a plain implementation of the same network.

    python benchmarks/training_speed.py [CELL] [--rounds N] [--steps N]

Both train on the cell's data in turn, one thread. Prints medians over the rounds: sentences per
second of processor time, and the ratio. The plain implementation is what one writes first: batches
in random order padded to their longest sentence, a character CNN over every padded token, a packed
bidirectional LSTM, a CRF that loops over sentences in Python, and an optimizer that is not fused.
"""

import argparse
import statistics
import time
from itertools import cycle
from pathlib import Path

from steps import Run, Timing, build_run, time_in_turn

from nlp_core.config.params import read_params
from nlp_core.data.batching import order_training_batches
from nlp_core.data.task import TAGS
from nlp_core.models.features import Batch, EncodedSplit, Featurizer
from nlp_core.models.graph import GraphModel, build_model
from nlp_core.training.cell import Cell, read_cell
from nlp_core.training.determinism import seed_everything

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


def build_plain(cell: Cell, train: EncodedSplit, ours: GraphModel) -> Run:
    blocks = ours.blocks
    words = [blocks[name].weight.detach().clone() for name in ("word_100", "word_50")]
    characters = blocks["character"].table.weight
    model = PlainTagger(words, len(characters), len(cell.task.labels))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, foreach=False)
    size = cell.recipe.batch_size
    order = order_training_batches(
        train.lengths, batch_size=size, bucket_batches=0, seed=1, epoch=1
    )
    batches = cycle(order)

    def run(num_steps: int) -> Timing:
        seen, started = 0, time.process_time()
        for _ in range(num_steps):
            batch = train.batch(next(batches))
            optimizer.zero_grad()
            model.loss(batch).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            seen += len(batch.rows)
        return Timing(seen, time.process_time() - started)

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cell", nargs="?", default="ccnn_wlstm_crf")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    cell = read_cell(options.cell, read_params(Path("params.yaml")))
    split = cell.task.read_split("train")
    seed_everything(1)
    featurizer = Featurizer.build(cell.plan, cell.task, split, cell.init)
    train = featurizer.encode(split)
    model = build_model(cell.plan, featurizer, kind=cell.task.kind)
    runs = {
        "plain": build_plain(cell, train, model),
        "ours": build_run(model, cell.task, train, cell.recipe),
    }
    found = time_in_turn(runs, rounds=options.rounds, steps=options.steps, warm_up=5)
    print(f"{cell.name}: sentences per second, medians of {options.rounds} rounds, one thread")
    for name, timings in found.items():
        print(f"{name:8}{statistics.median(item.speed for item in timings):10.0f}")
    pairs = zip(found["ours"], found["plain"], strict=True)
    print(f"ratio   {statistics.median(ours.speed / plain.speed for ours, plain in pairs):10.2f}")


if __name__ == "__main__":
    main()
