"""From the text of a task to the arrays that a model's raw-input layers read.

Each layer that reads words or characters has a vocabulary, made from the training split. Layers
that share parameters share it; it then counts the words of all their columns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nlp_core.blocks.base import CHARACTERS, WORDS
from nlp_core.config.column import PIECES, WHOLE_TEXTS
from nlp_core.config.model import find_axes
from nlp_core.data.batching import Ragged
from nlp_core.data.pieces import Pieces, PieceVocabulary
from nlp_core.data.split_column import Column, LabelColumn, Rows, TextColumn
from nlp_core.data.task import Split, Task
from nlp_core.data.vocabulary import (
    UNKNOWN,
    CharacterVocabulary,
    Feature,
    Vocabulary,
    WordVocabulary,
)
from nlp_core.data.written_text import number_sources
from nlp_core.errors import ConfigError, suggest
from nlp_core.kinds import NEXT_WORD, OUTPUT
from nlp_core.models.batch import IGNORED, EncodedSplit
from nlp_core.models.plan import LayerPlan, ModelPlan, find_source


@dataclass(frozen=True)
class Featurizer:
    """Vocabularies of a model's raw-input layers."""

    plan: ModelPlan
    vocabularies: dict[str, Vocabulary]
    """By the layer that owns the parameters."""
    targets: dict[str, list[str]]
    """By column (label, tags) all labels that can be predicted."""

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
            for name, column in parts[task.name].find_missing(train.columns).items():
                raise ConfigError(
                    f"{plan.where}: inputs: '{name}' reads '{column}', which task '{task.name}' of "
                    f"kind {task.kind} does not have. {suggest(column, train.columns)}"
                )
            part = parts[task.name]
            read = {(layer.owner, _source(part, layer)) for layer in part.raw_layers}
            for owner, name in sorted(read):
                columns.setdefault(owner, []).append(train.columns[name])
        vocabularies = dict(known or {})
        for layer in plan.raw_layers:
            if layer.is_owner and layer.name not in vocabularies:
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

    @property
    def written_pieces(self) -> PieceVocabulary | None:
        """The pieces in which a decoder writes; None: in none."""
        layer = self.plan.writing_layer
        if layer is None:
            return None
        vocabulary = self.vocabularies[layer.owner]
        assert isinstance(vocabulary, PieceVocabulary), layer.name
        return vocabulary

    def encode(self, split: Split) -> EncodedSplit:
        """Turn the texts and targets of a split into arrays; an unknown label is a DataError."""
        features = {
            layer.name: self.vocabularies[layer.owner].read(
                split.columns[_source(self.plan, layer)]
            )
            for layer in self.plan.raw_layers
        }
        inputs = {
            name: (split.numbers if axis in split.numbers else split.texts)[axis].outline()
            for name, column in self.plan.inputs.items()
            if column not in WHOLE_TEXTS
            for axis in find_axes(column)
        }
        texts = self._find_texts(features)
        inputs |= {name: pieces.outline() for name, pieces in texts.items()}
        targets = {name: self._encode_target(split, name) for name in self.targets}
        given = {name: item for name, item in targets.items() if item is not None}
        parts = next((item.parts for item in texts.values() if item.parts is not None), None)
        copies = None
        if OUTPUT in self.targets and self.written_pieces is None:
            copies = number_sources(split.texts["tokens"], self.targets[OUTPUT])
        pieces = self.written_pieces
        return EncodedSplit(split, features, inputs, given, parts, copies, pieces=pieces)

    def _encode_target(self, split: Split, name: str) -> Ragged | Rows | None:
        if name == NEXT_WORD:
            return _shift(self.predicted_words, split.texts["tokens"])
        answers, pieces = split.targets.get(name), self.written_pieces
        if name == OUTPUT and pieces is not None and isinstance(answers, LabelColumn):
            return pieces.spell(answers)
        return split.encode_target(name, self.targets[name])

    def _find_texts(self, features: Mapping[str, Feature]) -> dict[str, Pieces]:
        """Return the pieces of each input of whole texts, which set its lengths."""
        return {
            layer.inputs[0]: feature
            for layer in self.plan.raw_layers
            if isinstance(feature := features[layer.name], Pieces)
            and self.plan.inputs[layer.inputs[0]] in WHOLE_TEXTS
        }


def _shift(vocabulary: WordVocabulary, text: TextColumn) -> Ragged:
    """Return the id of the next token for each one; -1 for the last one of a text."""
    ids = vocabulary.encode(text.tokens)
    ids[ids >= len(vocabulary)] = UNKNOWN  # has a pretrained vector, but cannot be predicted
    following = np.append(ids[1:], IGNORED)
    following[text.offsets[1:] - 1] = IGNORED
    return Ragged(following, text.offsets)


def choose_vocabulary(layer: LayerPlan) -> type[Vocabulary]:
    """Return the class that turns the column of a raw-input layer into numbers."""
    if layer.block.vocabulary is not None:
        return layer.block.vocabulary
    by_rank = {WORDS: WordVocabulary, CHARACTERS: CharacterVocabulary}
    return by_rank[layer.shapes[0].rank]


def list_piece_columns(plan: ModelPlan) -> list[str]:
    """Return the columns that a model cuts into pieces of its own, sorted."""
    columns = set(plan.inputs.values())
    return sorted(name for name in columns if name in WHOLE_TEXTS or name.endswith(PIECES))


def _source(plan: ModelPlan, layer: LayerPlan) -> str:
    return find_source(plan.inputs[layer.inputs[0]])
