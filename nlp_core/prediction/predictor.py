"""Predict with a trained model: a list of inputs in, a list of predictions out."""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple, cast

import numpy as np

from nlp_core.blocks.base import SEQUENCE, VECTOR
from nlp_core.config.user_data import DataConfig
from nlp_core.data.question_file import build_question_split
from nlp_core.data.readers.example import Question
from nlp_core.data.readers.user import UserExample, list_candidates
from nlp_core.data.task import Split
from nlp_core.data.tokenization import TOKENIZERS
from nlp_core.data.user_task import read_file_task
from nlp_core.errors import ConfigError, UsageError, suggest
from nlp_core.metrics import Confusion, Predictions, count_confusions
from nlp_core.models.batch import Batch, EncodedSplit
from nlp_core.models.features import list_piece_columns
from nlp_core.prediction.prediction import (
    Input,
    Prediction,
    abstain,
    build_split,
    choose_labels,
    cut_entities,
    name_answers,
    read_input,
    read_question,
)
from nlp_core.prediction.split_prediction import (
    Advance,
    describe_predictions,
    encode_alone,
    ignore,
    map_batches,
    measure_splits,
    predict,
)
from nlp_core.prediction.trained_model import TrainedModel

LEAST_CHANCE = 1e-300
FLAT_RANKS = (VECTOR, SEQUENCE)
"""What a list of numbers, or of such lists, can hold."""


class FileScores(NamedTuple):
    """The metrics in points, and which label was taken for which if each row has one label."""

    metrics: dict[str, float]
    confusion: Confusion | None
    predictions: Predictions


class Predictor:
    """A trained model, ready to predict; without `data` it reads files as in its training.

    Args:
        abstain_below: the least confidence of a label; below it the prediction is empty, or the
            label out of scope if there is one. `auto`: what training chose. None: every example
            gets a label, unless there is one out of scope: `auto`.

    Raises:
        ConfigError: the model does not choose one label, training chose no threshold, or the one
            given is not from 0 to 1.
    """

    def __init__(
        self,
        trained: TrainedModel,
        data: DataConfig | None = None,
        *,
        abstain_below: float | Literal["auto"] | None = None,
    ) -> None:
        self.data = data or trained.describe_data()
        if abstain_below is None and self.data.out_of_scope is not None:
            abstain_below = "auto"
        self.least = None if abstain_below is None else trained.find_least(abstain_below)
        self._model = trained.model.eval()
        self._owner = trained.owner
        self._featurizer = trained.featurizer
        labels = next(iter(self._featurizer.targets.values()))
        self.labels = self.data.choice_names if self.data.choices else labels
        self.tokenize = TOKENIZERS.get(self.data.tokens)

    def predict(self, inputs: Sequence[Input]) -> list[Prediction]:
        """Predict a list of inputs; batching does not change a prediction.

        Args:
            inputs: texts; pairs of texts; a question and its candidates; a question and a context;
                or, where each token gets a tag, texts or lists of tokens.

        Raises:
            ConfigError: the inputs are not a list, one is neither a text nor a list of texts or
                has more or fewer than the model reads, or a context has no words.
        """
        return self.predict_examples(self._read_all(inputs))

    def require_texts_alone(self) -> None:
        """Raise ConfigError if the model also reads columns that only a file can have."""
        if self.data.extras:
            raise UsageError(
                f"predict: found a model that reads {' and '.join(self.data.extras)} in addition "
                "to the text, expected one that reads only texts; predict a file that has them."
            )

    def predict_examples(
        self, examples: Sequence[UserExample], advance: Advance = ignore
    ) -> list[Prediction]:
        """Predict examples whose texts are tokens already; `advance` gets the number predicted."""
        if self.data.kind.is_searched:
            raise ConfigError(
                "predict: found a model for retrieval, expected one that predicts each input by "
                "itself; write an index of passages with `reglue index` and search it with "
                "`reglue retrieve`."
            )
        if not examples:
            return []
        if self.data.kind.has_passages:
            questions = [read_question(example, self.data) for example in examples]
            return self.answer(questions, advance)
        if self.data.choices:
            return self._choose_candidates(examples, advance)
        found = self._predict_all(examples, advance)
        if self.data.has_spans:
            found = [cut_entities(*item) for item in zip(found, examples, strict=True)]
        if self.least is None:
            return found
        return [abstain(item, self.least, self.data.out_of_scope) for item in found]

    def _choose_candidates(
        self, examples: Sequence[UserExample], advance: Advance
    ) -> list[Prediction]:
        candidates = [list(list_candidates(example, self.data)) for example in examples]
        share = 1 / len(candidates[0])
        predicted = iter(
            self._predict_all(
                list(chain.from_iterable(candidates)), lambda number: advance(number * share)
            )
        )
        found = []
        for own in candidates:
            chances = np.array([next(predicted).probability for _ in own], dtype=np.float64)
            wrong, right = np.log(chances.clip(min=LEAST_CHANCE)).T
            odds = np.exp(right - wrong - (right - wrong).max())
            best = int(odds.argmax())
            found.append(choose_labels(np.array(best), odds / odds.sum(), None, self.labels))
        return found

    def _predict_all(self, examples: Sequence[UserExample], advance: Advance) -> list[Prediction]:
        return self._answer_split(self._build_split(examples), advance)

    def _build_split(self, examples: Sequence[UserExample]) -> Split:
        return build_split(examples, self.data, self._featurizer.targets)

    def _answer_split(self, split: Split, advance: Advance) -> list[Prediction]:
        encoded = self._featurizer.encode(split)
        return map_batches(encoded, partial(self._answer_batch, encoded), advance=advance)

    def _answer_batch(self, encoded: EncodedSplit, batch: Batch) -> list[Prediction]:
        targets, scores = self._featurizer.targets, self._model(batch)
        found = name_answers(self._model, scores, encoded, batch.rows, targets)
        first, *others = (found[target] for target in targets)
        if not others:
            return first
        tags = [cast(list[str], item.prediction) for item in others[0]]
        return [item._replace(tags=own) for item, own in zip(first, tags, strict=True)]

    def embed(self, inputs: Sequence[Input], layer: str | None = None) -> list[np.ndarray]:
        """Return a layer's vectors of inputs; batching does not change a vector.

        Args:
            inputs, layer: see `predict` and `find_layer`.

        Returns:
            For each input float32 [D], or [T, D] from a layer with a vector for each place of it.
        """
        return self.embed_examples(self._read_all(inputs), self.find_layer(layer))

    def embed_examples(
        self, examples: Sequence[UserExample], layer: str, advance: Advance = ignore
    ) -> list[np.ndarray]:
        """Embed examples whose texts are tokens already; see `embed` and `predict_examples`."""
        if not examples:
            return []
        encoded = self._featurizer.encode(self._build_split(examples))
        return map_batches(encoded, partial(self._embed_batch, layer=layer), advance=advance)

    def find_layer(self, name: str | None = None) -> str:
        """Return the layer whose output is wanted; None: the one that the first head reads.

        Raises:
            ConfigError: there is no such layer, it has a grid for each input, or no single input is
                the model's: it reads passages or candidates.
        """
        if self.data.kind.has_passages or self.data.choices:
            raise UsageError(
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
            raise UsageError(f"--layer: found '{name}', {found}. {suggest(name, fitting)}")
        return name

    def find_places(self, labels: Sequence[str]) -> dict[str, int]:
        """Return the index of each label's probability, by the name of its new column."""
        if labels and (self.data.kind.has_tree or self.data.kind.writes_text):
            raise ConfigError(
                "--confidence-of: found a model whose answer is a whole tree or text, which has "
                "one confidence; leave it out."
            )
        for label in labels:
            if label not in self.labels:
                raise UsageError(
                    f"--confidence-of: found '{label}', which is not a label of the model. "
                    f"{suggest(label, self.labels)}"
                )
        return {f"confidence_of_{label}": self.labels.index(label) for label in labels}

    def measure(self, path: Path) -> dict[str, float]:
        """Return the metrics of a file with labels, in points."""
        return self.compare(path).metrics

    def compare(self, path: Path) -> FileScores:
        """Return what `measure` does, and which label was taken for which."""
        targets, pieces = self._featurizer.targets, list_piece_columns(self._featurizer.plan)
        task = read_file_task(path, self.data, targets, pieces, self._owner)
        parts = [
            predict(self._model, encode_alone(self._featurizer, split, task.kind), targets)
            for split in task.splits.values()
        ]
        found = describe_predictions(task, parts[0])
        confusion = count_confusions(found) if task.kind.has_confusion else None
        return FileScores(measure_splits(task, parts, self.least)["test"], confusion, found)

    def _read_all(self, inputs: Sequence[Input]) -> list[UserExample]:
        self.require_texts_alone()
        if isinstance(inputs, str):
            raise UsageError("predict: found a text, expected a list of inputs: [text].")
        if not isinstance(inputs, Iterable):
            name = type(inputs).__name__
            raise UsageError(f"predict: found a {name}, expected a list of inputs: [text].")
        return [read_input(item, idx, self.data, self.tokenize) for idx, item in enumerate(inputs)]

    def answer(self, questions: Sequence[Question], advance: Advance = ignore) -> list[Prediction]:
        """Answer questions on passages; the answer that there is none is an empty text."""
        split = build_question_split("input", questions, self.data)
        return self._answer_split(split, advance)

    def _embed_batch(self, batch: Batch, layer: str) -> list[np.ndarray]:
        values, masks = self._model.compute_layers(batch)
        found, mask = values[layer].numpy(), masks[layer]
        if mask is None:
            return list(found)
        return [row[:size] for row, size in zip(found, mask.sum(1).tolist(), strict=True)]
