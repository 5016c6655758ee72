"""Predict with a trained model: a list of inputs in, a list of predictions out."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypeVar, cast

import numpy as np
import torch

from nlp_core.blocks import SEQUENCE, VECTOR
from nlp_core.config.reader import SYMBOLS
from nlp_core.config.user_data import DataConfig
from nlp_core.data.batching import order_evaluation_batches
from nlp_core.data.question_file import build_question_split
from nlp_core.data.readers.example import Passage, Question
from nlp_core.data.readers.user import UserExample, cut_texts, list_candidates, locate_text
from nlp_core.data.split_column import NumberColumn, RawText, TextColumn
from nlp_core.data.task import Split
from nlp_core.data.tokenization import LOCATORS, TOKENIZERS
from nlp_core.data.user_task import build_user_task, read_user_split
from nlp_core.errors import ConfigError, suggest
from nlp_core.heads import Head
from nlp_core.heads.tagging import CRFTaggingHead, TaggingHead
from nlp_core.kinds import ANSWERS
from nlp_core.metrics import measure
from nlp_core.metrics.confusion import Confusion, count_confusions
from nlp_core.models.batch import Batch, EncodedSplit
from nlp_core.models.features import list_piece_columns
from nlp_core.prediction.prediction import Prediction, choose_labels, cut_entities
from nlp_core.prediction.split_prediction import EVALUATION_BATCH, describe_predictions, predict
from nlp_core.prediction.trained_model import TrainedModel
from reglue_runtime.text import EMPTY_TOKEN

LEAST_CHANCE = 1e-300
FLAT_RANKS = (VECTOR, SEQUENCE)
"""What a list of numbers, or of such lists, can hold."""
Value = TypeVar("Value")
Input: TypeAlias = str | Sequence[str]
"""A text; two texts for a pair; a text or its tokens where each token gets a tag."""


class FileScores(NamedTuple):
    """How well a model predicts a file with labels.

    Attributes:
        metrics: by name, in points.
        confusion: which label was taken for which; None unless each row has one label.
    """

    metrics: dict[str, float]
    confusion: Confusion | None


class Predictor:
    """A trained model, ready to predict.

    Args:
        trained: the model.
        data: how files are read; None: as the model's own data section or its task says. The kind
            of data, and the texts that the model reads, are those that it was trained for.
    """

    def __init__(self, trained: TrainedModel, data: DataConfig | None = None) -> None:
        self.data = data or trained.describe_data()
        self._model = trained.model.eval()
        self._featurizer = trained.featurizer
        labels = next(iter(self._featurizer.targets.values()))
        self.labels = self.data.choice_names if self.data.choices else labels
        self.tokenize = TOKENIZERS.get(self.data.tokens)

    def predict(self, inputs: Sequence[Input]) -> list[Prediction]:
        """Predict a list of inputs; batching does not change a prediction.

        Args:
            inputs: texts; pairs of texts where the model compares two; a question and its
                candidates where it chooses one; a question and a context where it finds the
                answer; texts or lists of tokens where each token gets a tag.

        Raises:
            ConfigError: the inputs are no list, one has not as many texts as the model reads, or a
                context has no words.
        """
        return self.predict_examples(self._read_all(inputs))

    def require_texts_alone(self) -> None:
        """Refuse a model that texts alone are not enough for.

        Raises:
            ConfigError: it reads further columns, which only a file can hold.
        """
        if self.data.extras:
            raise ConfigError(
                f"predict: found a model that reads {' and '.join(self.data.extras)} in addition "
                "to the text, expected one that reads only texts; predict a file that has them."
            )

    def predict_examples(self, examples: Sequence[UserExample]) -> list[Prediction]:
        """Predict examples whose texts are tokens already."""
        if not examples:
            return []
        if self.data.kind.has_passages:
            return self._answer_texts(examples)
        if self.data.choices:
            return self._choose_candidates(examples)
        found = self._predict_all(examples)
        if self.data.has_spans:
            return [cut_entities(*item) for item in zip(found, examples, strict=True)]
        return found

    def _choose_candidates(self, examples: Sequence[UserExample]) -> list[Prediction]:
        """Return for each question which candidate is the right one."""
        candidates = [list(list_candidates(example, self.data)) for example in examples]
        predicted = iter(self._predict_all(list(chain.from_iterable(candidates))))
        found = []
        for own in candidates:
            chances = np.array([next(predicted).probability for _ in own], dtype=np.float64)
            wrong, right = np.log(chances.clip(min=LEAST_CHANCE)).T
            odds = np.exp(right - wrong - (right - wrong).max())
            best = int(odds.argmax())
            found.append(choose_labels(np.array(best), odds / odds.sum(), None, self.labels))
        return found

    def _predict_all(self, examples: Sequence[UserExample]) -> list[Prediction]:
        return self._map_batches(examples, self._predict_batch)

    def _map_batches(
        self, examples: Sequence[UserExample], compute: Callable[[Batch], list[Value]]
    ) -> list[Value]:
        """Return what is computed for each example, in batches of like lengths."""
        found: dict[int, Value] = {}
        encoded = self._encode(examples)
        for rows in order_evaluation_batches(encoded.lengths, batch_size=EVALUATION_BATCH):
            found |= dict(zip(rows.tolist(), compute(encoded.batch(rows)), strict=True))
        return [found[row] for row in range(len(examples))]

    def embed(self, inputs: Sequence[Input], layer: str | None = None) -> list[np.ndarray]:
        """Return the vectors that a layer has for inputs; batching does not change a vector.

        Args:
            inputs: as in `predict`.
            layer: its name; None: the layer that the first head reads.

        Returns:
            For each input float32 [D], or [T, D] from a layer with a vector for each place of it.

        Raises:
            ConfigError: see `predict` and `find_layer`.
        """
        return self.embed_examples(self._read_all(inputs), self.find_layer(layer))

    def embed_examples(self, examples: Sequence[UserExample], layer: str) -> list[np.ndarray]:
        """Embed examples whose texts are tokens already; see `embed`."""
        if not examples:
            return []
        return self._map_batches(examples, partial(self._embed_batch, layer=layer))

    def find_layer(self, name: str | None = None) -> str:
        """Return the layer whose output is asked for.

        Args:
            name: of the layer; None: the one that the first head reads.

        Raises:
            ConfigError: there is no such layer, it has a grid for each input, or the model reads
                several texts of which none is the input: a passage, or candidates.
        """
        if self.data.kind.has_passages or self.data.choices:
            raise ConfigError(
                "embed: found a model that chooses among candidates or finds answers in contexts, "
                "expected one whose input is a text or a pair of texts."
            )
        plan = self._featurizer.plan
        if name is None:
            return next(iter(plan.heads.values())).inputs[0]
        ranks = {layer.name: layer.shape.rank for layer in plan.layers}
        if ranks.get(name) not in FLAT_RANKS:
            found = "a layer of grids" if name in ranks else "no layer of the model"
            fitting = [layer for layer, rank in ranks.items() if rank in FLAT_RANKS]
            raise ConfigError(f"--layer: found '{name}', {found}. {suggest(name, fitting)}")
        return name

    def find_label(self, label: str) -> int:
        """Return the place of a label among the probabilities.

        Raises:
            ConfigError: the model has no such label, or no labels at all.
        """
        if label not in self.labels:
            raise ConfigError(
                f"--confidence-of: found '{label}', which is no label of the model. "
                f"{suggest(label, self.labels)}"
            )
        return self.labels.index(label)

    def measure(self, path: Path) -> dict[str, float]:
        """Return the metrics of a file with labels, in points.

        Raises:
            DataError: the file is malformed, or has a label that the model does not know.
        """
        return self.compare(path).metrics

    def compare(self, path: Path) -> FileScores:
        """Return the metrics of a file with labels, and which label was taken for which.

        Raises:
            DataError: see `measure`.
        """
        targets = self._featurizer.targets
        pieces = list_piece_columns(self._featurizer.plan)
        split = read_user_split(path, self.data, "test", targets, pieces)
        encoded = self._featurizer.encode(split)
        task = build_user_task(self.data, targets, path.stem, {"test": split})
        found = describe_predictions(task, predict(self._model, encoded, targets))
        confusion = count_confusions(found) if task.kind.has_confusion else None
        return FileScores(measure(task.kind.name, task.metrics, found), confusion)

    def _read_all(self, inputs: Sequence[Input]) -> list[UserExample]:
        self.require_texts_alone()
        if isinstance(inputs, str):
            raise ConfigError("predict: found a text, expected a list of inputs: [text].")
        return [self._read(item, idx) for idx, item in enumerate(inputs)]

    def _read(self, item: Input, idx: int) -> UserExample:
        texts = [item] if isinstance(item, str) else list(item)
        if self.data.has_spans and isinstance(item, str):
            return locate_text([idx], item, self.data)
        if self.data.kind.has_tags:
            tokens = self.tokenize(item) if isinstance(item, str) else texts
            return UserExample([idx], [tokens or [EMPTY_TOKEN]], {})
        names = self.data.input_columns
        if len(texts) != len(names):
            raise ConfigError(
                f"input {idx + 1}: found {len(texts)} texts, expected {len(names)}: "
                f"{' and '.join(names)}."
            )
        if self.data.kind.has_passages:
            return UserExample([idx], [], {}, raw=texts)
        return cut_texts([idx], texts, self.data, self.tokenize)

    def answer(self, questions: Sequence[Question]) -> list[Prediction]:
        """Answer questions on passages; the answer that there is none is an empty text."""
        split = build_question_split("input", questions, self.data)
        encoded, targets = self._featurizer.encode(split), self._featurizer.targets
        found = predict(self._model, encoded, targets)
        assert found.score is not None, targets
        rows = zip(found.answers[ANSWERS], found.score, strict=True)
        return [
            Prediction(text, float(chances[0 if text else -1]), chances) for text, chances in rows
        ]

    def _answer_texts(self, examples: Sequence[UserExample]) -> list[Prediction]:
        questions = []
        for example in examples:
            (number,), (text, context) = example.lines, example.raw
            stretches = np.array(LOCATORS.get(self.data.tokens)(context), dtype=np.int32)
            if not len(stretches):
                raise ConfigError(f"input {number + 1}: found a context without words.")
            starts, ends = stretches.T
            passage = Passage(1, number + 1, context, starts, ends)
            questions.append(Question(str(number), text, passage, None))
        return self.answer(questions)

    def _encode(self, examples: Sequence[UserExample]) -> EncodedSplit:
        size = len(examples)
        texts = {
            name: [example.texts[idx] for example in examples]
            for idx, name in enumerate(self.data.text_names)
        }
        extras = {name: [example.extras[name] for example in examples] for name in self.data.extras}
        symbols = {name: rows for name, rows in extras.items() if name.startswith(SYMBOLS)}
        columns = {
            name: TextColumn.build([*chain.from_iterable(rows)], np.cumsum([0, *map(len, rows)]))
            for name, rows in (texts | symbols).items()
        }
        numbers = {
            name: NumberColumn.build(name, rows)
            for name, rows in extras.items()
            if name not in symbols
        }
        targets = {name: [None] * size for name in self._featurizer.targets}
        raw = [[example.raw[idx] for example in examples] for idx in range(len(examples[0].raw))]
        whole = RawText(raw[0], raw[1] if raw[1:] else None) if raw else None
        split = Split("input", np.arange(size), columns, targets, None, numbers, raw=whole)
        return self._featurizer.encode(split)

    @torch.no_grad()
    def _embed_batch(self, batch: Batch, layer: str) -> list[np.ndarray]:
        values, masks = self._model.compute_layers(batch)
        found, mask = values[layer].numpy(), masks[layer]
        if mask is None:
            return list(found)
        return [row[:size] for row, size in zip(found, mask.sum(1).tolist(), strict=True)]

    @torch.no_grad()
    def _predict_batch(self, batch: Batch) -> list[Prediction]:
        found: dict[str, list[Prediction]] = {}
        for name, (scores, mask) in self._model(batch).items():
            head = self._model.heads[name]
            assert isinstance(head, Head), name
            decoded, labels = head.decode(scores, mask), self._featurizer.targets[head.target]
            ids, chances = decoded.prediction.numpy(), decoded.probability
            sizes: list[int | None] = [None] * len(ids)
            if isinstance(head, TaggingHead | CRFTaggingHead):
                chances, sizes = head.marginals(scores, mask), mask.sum(1).tolist()
            if chances is None:
                found[head.target] = [Prediction(value, None, None) for value in ids.tolist()]
                continue
            rows = zip(ids, chances.numpy(), sizes, strict=True)
            found[head.target] = [
                choose_labels(answer, odds, size, labels) for answer, odds, size in rows
            ]
        first, *others = (found[target] for target in self._featurizer.targets)
        if not others:
            return first
        tags = [cast(list[str], item.prediction) for item in others[0]]
        return [item._replace(tags=own) for item, own in zip(first, tags, strict=True)]
