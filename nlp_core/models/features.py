"""From the text of a task to the arrays that a model's raw-input layers read.

Each layer that reads words or characters has a vocabulary, made from the training split. Layers
that share parameters share it; it then counts the words of all their columns.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from nlp_core.blocks import CHARACTERS, VECTOR, WORDS
from nlp_core.config.model import find_axes
from nlp_core.config.reader import PIECES, WHOLE_TEXTS
from nlp_core.data.batching import Ragged
from nlp_core.data.feature import Feature
from nlp_core.data.pieces import Pieces
from nlp_core.data.split_column import Column, Rows, TextColumn
from nlp_core.data.task import Split, Task
from nlp_core.data.vocabulary import UNKNOWN, CharacterVocabulary, Vocabulary, WordVocabulary
from nlp_core.errors import ConfigError, suggest
from nlp_core.kinds import NEXT_WORD
from nlp_core.models.plan import LayerPlan, ModelPlan

IGNORED = -1


@dataclass(frozen=True)
class Shares:
    """The shares of a part of a batch in the whole batch.

    Attributes:
        terms: by head, of the terms of its mean loss.
        rows: by head, of the rows by which two of its passes are compared.
        soft: by head, of the terms of a student's mean soft loss.
        windows: of the windows whose layers a student matches.
    """

    terms: Mapping[str, float]
    rows: Mapping[str, float]
    soft: Mapping[str, float] = field(default_factory=dict)
    windows: float = 1.0


@dataclass(frozen=True)
class Batch:
    """The input of a model in one step.

    Attributes:
        features: for each raw-input layer the input of its block: (ids_BT,), (ids_UC, index_BT) ...
        masks: mask_BT of each model input that has tokens.
        targets: by column label ids [B] or [B, T] (-1 at padding), values [B], 0 or 1 for each of
            several labels [B, L], or first and last token of an answer [B, 2] (-1 without an
                answer);
            unlabeled columns are left out.
        rows: row numbers of the examples in their split, [B].
        group: question number of each candidate, [B]; None if the kind has no groups.
        shares: of this part in a step's batch; None: the batch is whole.
        parts: of pairs in the input `texts`, 1 or 2 at pieces of the first or second text, 0 at
            special pieces and padding, [B, T].
    """

    features: dict[str, tuple[Tensor, ...]]
    masks: dict[str, Tensor]
    targets: dict[str, Tensor]
    rows: np.ndarray
    group: Tensor | None = None
    shares: Shares | None = None
    parts: Tensor | None = None

    def to(self, device: torch.device) -> "Batch":
        if device.type == "cpu":
            return self
        return replace(
            self,
            features={
                layer: tuple(item.to(device) for item in items)
                for layer, items in self.features.items()
            },
            masks={name: item.to(device) for name, item in self.masks.items()},
            targets={name: item.to(device) for name, item in self.targets.items()},
            group=None if self.group is None else self.group.to(device),
            parts=None if self.parts is None else self.parts.to(device),
        )


@dataclass(frozen=True)
class EncodedSplit:
    """A split as arrays.

    Attributes:
        features: by raw-input layer.
        inputs: for each model input that has tokens, the lengths of its texts.
        targets: by column (label, tags) label ids or values; unlabeled columns are left out.
        parts: of pairs in the input `texts`, the text of each piece; see Batch.
    """

    split: Split
    features: dict[str, Feature]
    inputs: dict[str, Ragged]
    targets: dict[str, Ragged | Rows]
    parts: Ragged | None = None

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each example over all inputs, which decide its batch, [N]."""
        total: np.ndarray = sum(
            (column.lengths for column in self.inputs.values()), np.zeros(len(self.split), int)
        )
        return total

    def draw(self, seed: int, step: int) -> "EncodedSplit":
        """Return the split as a training step reads it; subclasses may draw something."""
        return self

    def batch(self, rows: np.ndarray) -> Batch:
        features = {
            layer: tuple(torch.from_numpy(array) for array in item.take(rows))
            for layer, item in self.features.items()
        }
        masks = {name: torch.from_numpy(item.mask(rows)) for name, item in self.inputs.items()}
        targets = {
            name: torch.from_numpy(
                item.take(rows, padding=IGNORED) if isinstance(item, Ragged) else item[rows]
            )
            for name, item in self.targets.items()
        }
        group = None if self.split.group is None else torch.from_numpy(self.split.group[rows])
        parts = None if self.parts is None else torch.from_numpy(self.parts.take(rows))
        return Batch(features, masks, targets, rows, group, parts=parts)


@dataclass(frozen=True)
class Featurizer:
    """Vocabularies of a model's raw-input layers.

    Attributes:
        vocabularies: by the layer that owns the parameters.
        targets: by column (label, tags) all labels that can be predicted.
    """

    plan: ModelPlan
    vocabularies: dict[str, Vocabulary]
    targets: dict[str, list[str]]

    @classmethod
    def build(cls, plan: ModelPlan, task: Task, train: Split, init: Path) -> "Featurizer":
        """Make the vocabularies from the training split of a task; see `build_all`."""
        return cls.build_all(plan, [(task, train)], init)[task.name]

    @classmethod
    def build_all(
        cls,
        plan: ModelPlan,
        trained: Sequence[tuple[Task, Split]],
        init: Path,
        known: Mapping[str, Vocabulary] | None = None,
    ) -> dict[str, "Featurizer"]:
        """Make the vocabularies from the training splits of all tasks, which share them.

        Each task's featurizer is for the part of the model that serves the task. `known` has
        vocabularies of trained layers.

        Raises:
            ConfigError: the model reads a column that a task does not have, or has no head for it.
            DataError: a vector table is missing or has another width.
        """
        parts = {task.name: plan.for_task(task.name) for task, _ in trained}
        columns: dict[str, list[Column]] = {}
        for task, train in trained:
            _check_columns(parts[task.name], task, train)
            for owner in sorted({layer.owner for layer in raw_layers(parts[task.name])}):
                sources = _list_sources(parts[task.name], owner)
                columns.setdefault(owner, []).extend(train.columns[name] for name in sources)
        vocabularies = dict(known or {})
        for layer in raw_layers(plan):
            if layer.owner == layer.name and layer.name not in vocabularies:
                kind = choose_vocabulary(layer)
                vocabularies[layer.owner] = kind.learn(
                    columns.get(layer.owner, []), layer.options, init
                )
        return {task.name: cls(parts[task.name], vocabularies, task.targets) for task, _ in trained}

    @property
    def predicted_words(self) -> WordVocabulary:
        """The vocabulary of the words that a language model predicts."""
        layers = {layer.name: layer.owner for layer in self.plan.layers}
        name = next(
            head.options["vocabulary"] for head in self.plan.heads.values() if head.head.causal
        )
        vocabulary = self.vocabularies[layers[name]]
        assert isinstance(vocabulary, WordVocabulary), name
        return vocabulary

    def encode(self, split: Split) -> EncodedSplit:
        """Turn the texts and targets of a split into arrays.

        Raises:
            DataError: a label is not one of the task's.
        """
        features = {
            layer.name: self.vocabularies[layer.owner].read(
                split.columns[_source(self.plan, layer)]
            )
            for layer in raw_layers(self.plan)
        }
        inputs = {
            name: split.texts[axis].outline()
            for name, column in self.plan.inputs.items()
            if column not in WHOLE_TEXTS
            for axis in find_axes(column)
        }
        texts = self._find_texts(features)
        inputs |= {name: pieces.outline() for name, pieces in texts.items()}
        targets = {
            name: _shift(self.predicted_words, split.texts["tokens"])
            if name == NEXT_WORD
            else split.encode_target(name, labels)
            for name, labels in self.targets.items()
        }
        given = {name: item for name, item in targets.items() if item is not None}
        parts = next((item.parts for item in texts.values() if item.parts is not None), None)
        return EncodedSplit(split, features, inputs, given, parts)

    def _find_texts(self, features: Mapping[str, Feature]) -> dict[str, Pieces]:
        """Return the pieces of each input of whole texts, which set its lengths."""
        found = {}
        for layer in raw_layers(self.plan):
            feature = features[layer.name]
            if isinstance(feature, Pieces) and self.plan.inputs[layer.inputs[0]] in WHOLE_TEXTS:
                found[layer.inputs[0]] = feature
        return found


def _check_columns(plan: ModelPlan, task: Task, train: Split) -> None:
    for name, column in plan.inputs.items():
        if find_source(column) not in train.columns:
            raise ConfigError(
                f"{plan.where}: inputs: '{name}' reads '{column}', which task '{task.name}' of "
                f"kind {task.kind} does not have. {suggest(column, train.columns)}"
            )


def _shift(vocabulary: WordVocabulary, text: TextColumn) -> Ragged:
    """Return the id of the next token for each one; -1 for the last one of a text."""
    ids = vocabulary.encode(text.tokens)
    ids[ids >= len(vocabulary)] = UNKNOWN  # has a pretrained vector, but cannot be predicted
    following = np.append(ids[1:], IGNORED)
    following[text.offsets[1:] - 1] = IGNORED
    return Ragged(following, text.offsets)


def raw_layers(plan: ModelPlan) -> Iterator[LayerPlan]:
    """Yield the layers that read columns of the task."""
    for layer in plan.layers:
        if layer.shapes[0].rank < VECTOR:
            yield layer


def choose_vocabulary(layer: LayerPlan) -> type[Vocabulary]:
    """Return the class that turns the column of a raw-input layer into numbers."""
    return layer.block.vocabulary or _VOCABULARIES[layer.shapes[0].rank]


_VOCABULARIES: dict[int, type[Vocabulary]] = {
    WORDS: WordVocabulary,
    CHARACTERS: CharacterVocabulary,
}


def list_files(plan: ModelPlan) -> list[Path]:
    """Return the files of the project that training of the model reads, sorted."""
    files = {
        str(layer.options[name])
        for layer in plan.layers
        for name in layer.block.files
        if name in layer.options
    }
    return [Path(name) for name in sorted(files)]


def list_piece_columns(plan: ModelPlan) -> list[str]:
    """Return the columns that a model cuts into pieces of its own, sorted."""
    columns = set(plan.inputs.values())
    return sorted(name for name in columns if name in WHOLE_TEXTS or name.endswith(PIECES))


def find_source(column: str) -> str:
    """Return the task's column of a model's input, which may be its characters."""
    return column.removesuffix(".characters")


def _source(plan: ModelPlan, layer: LayerPlan) -> str:
    return find_source(plan.inputs[layer.inputs[0]])


def _list_sources(plan: ModelPlan, owner: str) -> list[str]:
    return sorted({_source(plan, layer) for layer in raw_layers(plan) if layer.owner == owner})
