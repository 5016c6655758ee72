"""Speed of training a tagger relative to NCRF++ (Yang et al. 2018).

    python benchmarks/tagging_speed.py NCRFPP [--batch-size N] [--rounds N] [--steps N]

NCRFPP is a clone of that library that runs with the installed torch: its masks are of type bool,
and its CRF does not change the partition in place. Both train the network of the cell
ccnn_wlstm_crf (a character CNN, a BiLSTM and a CRF) on the same sentences in turn: one thread,
float32, SGD. Prints medians over the rounds: sentences per second of processor time, and the
ratio. The bar is 4.

A step of NCRF++ is that of its training loop: it builds the padded batch, computes the loss,
decodes, counts the right tokens, and updates. Ours is a step of the cell. NCRF++ has one
embedding of 150 numbers, and our cell concatenates two; its batches are in random order, ours
have similar lengths.
"""

import argparse
import random
import statistics
import sys
import time
from pathlib import Path
from types import SimpleNamespace

from steps import Run, Timing, build_run, serve, start, time_in_turn

from nlp_core.config.params import read_params
from nlp_core.data.task import Split, read_task
from nlp_core.training.cell import read_cell
from nlp_core.training.determinism import seed_everything
from nlp_core.training.run import prepare_tasks

import torch  # isort: skip  # after nlp_core, which pins threads and instruction set

BAR = 4.0
CELL = "ccnn_wlstm_crf"


class Alphabet:
    """Symbols and their numbers; 0 is padding, as in NCRF++."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}

    def number(self, symbol: str) -> int:
        return self.ids.setdefault(symbol, len(self.ids) + 1)

    def size(self) -> int:
        return len(self.ids) + 1


def build_ours(batch_size: int) -> Run:
    cell = read_cell(CELL, read_params(Path("params.yaml")))
    seed_everything(1)
    model, _, (task,) = prepare_tasks(cell)
    recipe = cell.recipe.model_copy(update={"batch_size": batch_size})
    return build_run(model, cell.task, task.train, recipe)


def list_instances(
    train: Split, words: Alphabet, characters: Alphabet, tags: Alphabet
) -> list[list[object]]:
    """Return the numbers of words, features, characters and tags of each sentence."""
    instances: list[list[object]] = []
    for row, labels in enumerate(train.targets["tags"]):
        tokens = train.texts["tokens"].row(row)
        spelt = [[characters.number(letter) for letter in token] for token in tokens]
        numbers = [
            words.number("".join("0" if c.isdigit() else c for c in token)) for token in tokens
        ]
        instances.append([numbers, [[]] * len(tokens), spelt, [tags.number(tag) for tag in labels]])
    return instances


def describe_network(
    words: Alphabet, characters: Alphabet, tags: Alphabet, batch_size: int
) -> SimpleNamespace:
    """Return the settings of NCRF++ for the network of the cell."""
    return SimpleNamespace(
        HP_gpu=False,
        HP_batch_size=batch_size,
        HP_bilstm=True,
        HP_lstm_layer=1,
        HP_hidden_dim=200,
        HP_dropout=0.5,
        HP_char_hidden_dim=50,
        use_char=True,
        use_crf=True,
        average_batch_loss=True,
        sentence_classification=False,
        char_feature_extractor="CNN",
        word_feature_extractor="LSTM",
        feature_num=0,
        feature_emb_dims=[],
        word_emb_dim=150,
        char_emb_dim=30,
        pretrain_word_embedding=None,
        pretrain_char_embedding=None,
        word_alphabet=words,
        char_alphabet=characters,
        label_alphabet_size=tags.size(),
    )


def build_theirs(folder: Path, train: Split, batch_size: int) -> Run:
    sys.path.insert(0, str(folder))
    from main import (  # type: ignore[import-not-found]
        batchify_sequence_labeling_with_label,
        predict_check,
    )
    from model.seqlabel import SeqLabel  # type: ignore[import-not-found]

    words, characters, tags = Alphabet(), Alphabet(), Alphabet()
    instances = list_instances(train, words, characters, tags)
    settings = describe_network(words, characters, tags, batch_size)
    model = SeqLabel(settings)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.015, momentum=0.0, weight_decay=1e-8)
    order = random.Random(1)
    model.train()

    def run(num_steps: int) -> Timing:
        batches = [order.sample(instances, batch_size) for _ in range(num_steps)]
        started = time.process_time()
        for batch in batches:
            word, features, lengths, _, char, sizes, places, label, mask = (
                batchify_sequence_labeling_with_label(batch, False, True)
            )
            loss, found = model.calculate_loss(
                word, features, lengths, char, sizes, places, label, mask
            )
            predict_check(found, label, mask)
            loss.item()
            loss.backward()
            optimizer.step()
            model.zero_grad()
        return Timing(num_steps * batch_size, time.process_time() - started)

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ncrfpp", type=Path, help="folder of the clone")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    folder, batch_size = arguments.ncrfpp, arguments.batch_size
    if arguments.serve:
        train = read_task(Path("data/processed/conll2003")).read_split("train")
        serve(build_theirs(folder, train, batch_size))
        return
    # in a process of its own, where torch has its own kernels
    theirs = start(__file__, str(folder), "--batch-size", str(batch_size), "--serve")
    runs = {"NCRF++": theirs, "ours": build_ours(batch_size)}
    found = time_in_turn(runs, rounds=arguments.rounds, steps=arguments.steps)
    print(
        f"CoNLL-2003, batches of {arguments.batch_size}: sentences per second of processor time, "
        f"medians of {arguments.rounds} rounds of {arguments.steps} steps, one thread (bar: {BAR})"
    )
    for name, timings in found.items():
        print(f"{name:8}{statistics.median(item.speed for item in timings):10.1f}")
    pairs = zip(found["ours"], found["NCRF++"], strict=True)
    print(f"ratio   {statistics.median(one.speed / two.speed for one, two in pairs):10.2f}")


if __name__ == "__main__":
    main()
