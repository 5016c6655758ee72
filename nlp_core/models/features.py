"""From the text of a task to the arrays that a model's raw-input layers read.

Each layer that reads words or characters has a vocabulary of its own, made from the training
split; layers that share parameters share it, and it then counts the words of all their columns.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nlp_core.blocks import CHARACTERS, WORDS
from nlp_core.data.batching import Ragged
from nlp_core.data.task import ANSWERS, Split, Task
from nlp_core.data.vocabulary import (
    CharacterVocabulary,
    WordRules,
    WordVocabulary,
    read_vectors,
)
from nlp_core.errors import ConfigError, DataError, suggest
from nlp_core.models.plan import LayerPlan, ModelPlan

Vocabulary = WordVocabulary | CharacterVocabulary
IGNORED = -1


@dataclass(frozen=True)
class Batch:
    """What a model reads in one step.

    Attributes:
        features: for each raw-input layer its ids: (ids_BT,) or (ids_UC, index_BT).
        masks: for each model input where its tokens are, mask_BT.
        targets: by column label ids [B] or [B, T] (-1 at padding), values [B], 1 at each of several
            labels and else 0, [B, L], or first and last token of an answer, [B, 2] (-1 without an
            answer); what the split has no labels of is left out.
        rows: row numbers of the examples in their split, [B].
        group: question number of each candidate, [B]; None when the kind has no groups.
    """

    features: dict[str, tuple[Tensor, ...]]
    masks: dict[str, Tensor]
    targets: dict[str, Tensor]
    rows: np.ndarray
    group: Tensor | None = None


@dataclass(frozen=True)
class EncodedSplit:
    """A split as arrays.

    Attributes:
        split: the examples themselves.
        words: for each raw-input layer the ids, or the numbers of distinct words, of its tokens.
        spellings: for each layer of characters the characters of those distinct words, [U, C].
        inputs: for each model input the lengths of its texts.
        targets: by column (label, tags) label ids or values; without labels left out.
    """

    split: Split
    words: dict[str, Ragged]
    spellings: dict[str, np.ndarray]
    inputs: dict[str, Ragged]
    targets: dict[str, Ragged | np.ndarray]

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each example over all inputs, which decide its batch, [N]."""
        total: np.ndarray = sum(
            (column.lengths for column in self.inputs.values()), np.zeros(len(self.split), int)
        )
        return total

    def batch(self, rows: np.ndarray) -> Batch:
        """Return some examples as tensors."""
        features: dict[str, tuple[Tensor, ...]] = {}
        for layer, words in self.words.items():
            taken = words.take(rows)
            features[layer] = (torch.from_numpy(taken),)
            if layer in self.spellings:
                features[layer] = _spell(taken, words.mask(rows), self.spellings[layer])
        masks = {name: torch.from_numpy(item.mask(rows)) for name, item in self.inputs.items()}
        targets = {
            name: torch.from_numpy(
                item.take(rows, padding=IGNORED) if isinstance(item, Ragged) else item[rows]
            )
            for name, item in self.targets.items()
        }
        group = None if self.split.group is None else torch.from_numpy(self.split.group[rows])
        return Batch(features, masks, targets, rows, group)


@dataclass(frozen=True)
class Featurizer:
    """Vocabularies of a model's raw-input layers.

    Attributes:
        plan: the model.
        vocabularies: by the layer that owns the parameters.
        targets: by column (label, tags) all labels that can be predicted.
    """

    plan: ModelPlan
    vocabularies: dict[str, Vocabulary]
    targets: dict[str, list[str]]

    @classmethod
    def build(cls, plan: ModelPlan, task: Task, train: Split, init: Path) -> "Featurizer":
        """Make the vocabularies from the training split.

        Raises:
            ConfigError: the model reads a column that the task does not have.
            DataError: a vector table is missing or has another width.
        """
        for name, column in plan.inputs.items():
            if column.partition(".")[0] not in train.texts:
                raise ConfigError(
                    f"{plan.where}: inputs: '{name}' reads '{column}', which task '{task.name}' of "
                    f"kind {task.kind} does not have. {suggest(column, train.texts)}"
                )
        vocabularies: dict[str, Vocabulary] = {}
        for layer in raw_layers(plan):
            if layer.owner == layer.name:
                words = _training_words(plan, layer.owner, train)
                vocabularies[layer.owner] = _build_vocabulary(layer, words, init)
        return cls(plan, vocabularies, task.targets)

    def encode(self, split: Split) -> EncodedSplit:
        """Turn the texts and targets of a split into arrays.

        Raises:
            DataError: a label that the task does not name.
        """
        words, spellings = {}, {}
        for layer in raw_layers(self.plan):
            text = split.texts[_column(self.plan, layer)]
            vocabulary = self.vocabularies[layer.owner]
            if isinstance(vocabulary, WordVocabulary):
                words[layer.name] = Ragged(vocabulary.encode(text.tokens), text.offsets)
            else:
                distinct = sorted(set(text.tokens))
                number = {word: idx for idx, word in enumerate(distinct)}
                numbers = np.array([number[word] for word in text.tokens], dtype=np.int64)
                words[layer.name] = Ragged(numbers, text.offsets)
                spellings[layer.name] = vocabulary.encode(distinct)
        inputs = {}
        for name, column in self.plan.inputs.items():
            text = split.texts[column.partition(".")[0]]
            inputs[name] = Ragged(np.empty(0), text.offsets)
        targets: dict[str, Ragged | np.ndarray] = {
            name: _encode_target(split.targets[name], labels, split.name)
            for name, labels in self.targets.items()
            if name != ANSWERS and all(item is not None for item in split.targets[name])
        }
        if split.passages is not None and split.passages.positions is not None:
            targets[ANSWERS] = split.passages.positions
        return EncodedSplit(split, words, spellings, inputs, targets)


def _encode_target(
    answers: list[Any],  # Any: labels, values, several labels or tags
    labels: list[str],
    split: str,
) -> Ragged | np.ndarray:
    if not labels:
        return np.array(answers, dtype=np.float32)
    number = {label: idx for idx, label in enumerate(labels)}
    several = bool(answers) and isinstance(answers[0], tuple)
    tagged = bool(answers) and isinstance(answers[0], list)
    flat = list(chain.from_iterable(answers)) if several or tagged else answers
    unknown = sorted(set(flat) - set(number))
    if unknown:
        raise DataError(
            f"split {split}: found the label '{unknown[0]}', which the task's manifest does not "
            f"name. {suggest(unknown[0], number)}"
        )
    if several:
        return np.array([[label in row for label in labels] for row in answers], dtype=np.float32)
    ids = np.array([number[label] for label in flat], dtype=np.int64)
    if not tagged:
        return ids
    return Ragged(ids, np.cumsum([0, *(len(tags) for tags in answers)]))


def raw_layers(plan: ModelPlan) -> Iterator[LayerPlan]:
    """Yield the layers that read words or characters."""
    for layer in plan.layers:
        if layer.shapes[0].rank in (WORDS, CHARACTERS):
            yield layer


def _column(plan: ModelPlan, layer: LayerPlan) -> str:
    return plan.inputs[layer.inputs[0]].partition(".")[0]


def _training_words(plan: ModelPlan, owner: str, train: Split) -> list[str]:
    columns = sorted({_column(plan, layer) for layer in raw_layers(plan) if layer.owner == owner})
    return [token for column in columns for token in train.texts[column].tokens]


def _build_vocabulary(layer: LayerPlan, words: list[str], init: Path) -> Vocabulary:
    if layer.shapes[0].rank == CHARACTERS:
        return CharacterVocabulary.build(words)
    rules = WordRules.from_options(layer.options)
    name = layer.options.get("vectors")
    table = read_vectors(init, name, layer.options["dim"]) if name else None
    return WordVocabulary.build(words, rules, table)


def _spell(numbers: np.ndarray, mask: np.ndarray, spellings: np.ndarray) -> tuple[Tensor, Tensor]:
    """Return the characters of the distinct words of a batch, and which word stands where."""
    distinct, index = np.unique(np.where(mask, numbers, numbers[0, 0]), return_inverse=True)
    ids = spellings[distinct]
    width = max(int((ids != 0).sum(axis=1).max()), 1)
    return torch.from_numpy(ids[:, :width]), torch.from_numpy(index.reshape(numbers.shape))
