"""The trained model in torch, to be timed with its exports."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch

from nlp_core.config.reader import NUMBERS, TOKEN_NUMBERS
from nlp_core.data.split_column import NumberColumn, RawText, TextColumn
from nlp_core.data.task import Split
from nlp_core.data.tokenization import TOKENIZERS
from nlp_core.errors import ConfigError
from nlp_core.export.answer import Answers, name_scores
from nlp_core.models.batch import Batch
from nlp_core.prediction.trained_model import TrainedModel


class TorchSubject:
    """A trained model as training runs it, or compiled by torch.

    Raises:
        ConfigError: its answers are spans of a passage, which are looked up in a file.
    """

    def __init__(self, trained: TrainedModel, *, compiled: bool) -> None:
        if trained.task.kind.has_passages:
            raise ConfigError(
                "--against: found a model of kind span, which cannot be timed in torch."
            )
        self._trained = trained
        self._tokenize = TOKENIZERS.get(trained.tokenizer)
        self._model: Any = trained.model.eval()  # Any: what torch.compile returns
        if compiled:
            self._model = torch.compile(self._model, dynamic=True)

    def featurize(self, examples: Sequence[Mapping[str, Any]]) -> tuple[Split, Batch]:
        split = self._build_split(examples)
        encoded = self._trained.featurizer.encode(split)
        return split, encoded.batch(np.arange(len(split)))

    @torch.no_grad()
    def answer(self, read: tuple[Split, Batch]) -> list[Answers]:
        split, batch = read
        return name_scores(self._trained, self._model(batch), split, batch.rows)

    def _build_split(self, examples: Sequence[Mapping[str, Any]]) -> Split:
        texts = {}
        for name in self._trained.texts:
            key = name.replace("text", "tokens")
            given = [example.get(key) or self._tokenize(example[name]) for example in examples]
            texts[key] = _build_column([words[: self._trained.max_tokens] for words in given])
        numbers = {}
        for name in examples[0]:
            column = [example[name] for example in examples]
            if name.startswith("features."):
                texts[name] = _build_column(column)
            elif name.startswith((NUMBERS, TOKEN_NUMBERS)):
                numbers[name] = NumberColumn.build(name, column)
        raw = None
        if self._trained.texts[0] in examples[0]:
            given = [[example[name] for example in examples] for name in self._trained.texts]
            raw = RawText(given[0], given[1] if len(given) > 1 else None)
        size = len(examples)
        targets = {name: [None] * size for name in self._trained.featurizer.targets}
        return Split("timed", np.arange(size), texts, targets, None, numbers, None, raw)


def _build_column(lists: Sequence[Sequence[str]]) -> TextColumn:
    offsets = np.cumsum([0, *map(len, lists)])
    return TextColumn.build(list(chain.from_iterable(lists)), offsets)
