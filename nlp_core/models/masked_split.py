"""Splits as arrays; those of a corpus have windows whose masks differ in each training step."""

from dataclasses import dataclass, replace

import numpy as np
import torch

from nlp_core.config.column import TEXTS
from nlp_core.config.pretraining import MaskingConfig
from nlp_core.data.batching import Ragged
from nlp_core.data.corpus import DocumentSplit
from nlp_core.data.masked_text import RULE, SEED, MaskedText, cut_text, mask_text
from nlp_core.data.pieces import PieceVocabulary
from nlp_core.data.task import Split
from nlp_core.data.window import encode_documents
from nlp_core.data.word_piece import read_pieces
from nlp_core.errors import ConfigError
from nlp_core.heads.language_model import MaskedLanguageModelHead
from nlp_core.kinds import LABEL, MASKED, TAGS
from nlp_core.models.batch import IGNORED, Batch, EncodedSplit
from nlp_core.models.features import Featurizer
from nlp_core.models.plan import ModelPlan

MASKING = 5  # which generator of a step
REPLACING = 1  # which generator of a window, besides that of its masking
MEASURED_WINDOWS = 1024
"""Windows of a text that are measured in full."""


@dataclass(frozen=True, kw_only=True)
class MaskedSplit(EncodedSplit):
    """Windows of a text with masked pieces."""

    text: MaskedText
    rule: MaskingConfig
    key: tuple[int, ...]
    """With the number of a window the seed of its masking."""
    layers: tuple[str, ...]
    """The layers that read the pieces."""
    input: str
    """The model's input of whole texts."""
    has_pairs: bool
    """Whether each window has two segments, and an answer as its label."""
    has_draws: bool = False
    """Whether each piece has a number, by which it may be replaced, and a tag."""

    def draw(self, seed: int, step: int) -> "MaskedSplit":
        """Return the windows with other pieces masked, which depend on seed and step only."""
        return replace(self, key=(seed, MASKING, step))

    def thin(self, most: int) -> "MaskedSplit":
        """Return at most `most` windows as a split to measure, with their masked pieces counted.

        Each is masked as it is in the whole.
        """
        text = self.text.thin(most)
        rows = np.arange(len(text))
        _, masked = text.batch(rows.tolist(), self.rule, self.key)
        owners = masked.positions // masked.ids.shape[1]
        counts = np.bincount(owners, minlength=len(rows)).astype(float).tolist()
        split = Split(text.name, rows, {}, {MASKED: counts}, None)
        return replace(self, split=split, inputs=_outline(self.input, text), text=text)

    def batch(self, rows: np.ndarray) -> Batch:
        windows, masked = self.text.batch(rows.tolist(), self.rule, self.key)
        inside = windows.inside
        places = np.where(inside, np.arange(inside.size).reshape(inside.shape), 0)
        targets = np.full(inside.size, IGNORED, dtype=np.int64)
        targets[masked.positions] = masked.targets
        read = (masked.ids, windows.segments, inside, places)
        fields = tuple(torch.from_numpy(array) for array in read)
        more = {LABEL: torch.from_numpy(windows.answers)} if self.has_pairs else {}
        draws = None
        if self.has_draws:
            more[TAGS] = torch.from_numpy(np.where(inside, 0, IGNORED))
            draws = torch.from_numpy(self._draw_numbers(rows, inside.shape[1]))
        return Batch(
            features=dict.fromkeys(self.layers, fields),
            masks={self.input: torch.from_numpy(inside)},
            targets={MASKED: torch.from_numpy(targets.reshape(inside.shape)), **more},
            rows=rows,
            draws=draws,
        )

    def _draw_numbers(self, rows: np.ndarray, width: int) -> np.ndarray:
        """Return numbers that depend on the key and the window, as its masking does."""
        seeds = [[*self.key, number, REPLACING] for number in self.text.numbers[rows].tolist()]
        return np.stack([np.random.default_rng(seed).random(width) for seed in seeds])


def _outline(name: str, text: MaskedText) -> dict[str, Ragged]:
    return {name: Ragged(np.empty(0), np.concatenate([[0], np.cumsum(text.lengths)]))}


def build_masked_split(
    plan: ModelPlan,
    text: MaskedText,
    rule: MaskingConfig = RULE,
    *,
    has_pairs: bool = False,
    has_draws: bool = False,
) -> MaskedSplit:
    """Return the windows of a text as a split of the model.

    Raises:
        ConfigError: the model cannot read documents.
    """
    name = find_input(plan)
    return MaskedSplit(
        split=Split(text.name, np.arange(len(text)), {}, {}, None),
        features={},
        inputs=_outline(name, text),
        targets={},
        text=text,
        rule=rule,
        key=(SEED,),
        layers=tuple(layer.name for layer in plan.raw_layers),
        input=name,
        has_pairs=has_pairs,
        has_draws=has_draws,
    )


def find_input(plan: ModelPlan) -> str:
    inputs = {name for layer in plan.raw_layers for name in layer.inputs}
    if set(plan.inputs[name] for name in inputs) != {TEXTS} or len(inputs) != 1:
        raise ConfigError(
            f"{plan.where}: inputs: found {', '.join(sorted(plan.inputs.values()))} below the head "
            f"of a corpus, expected {TEXTS} only."
        )
    return inputs.pop()


def find_rule(plan: ModelPlan) -> MaskingConfig:
    """Return how the options of the head mask pieces."""
    (rule,) = (
        head.head.find_rule(head.options)
        for head in plan.heads.values()
        if issubclass(head.head, MaskedLanguageModelHead)
    )
    return rule


def encode_split(featurizer: Featurizer, split: Split) -> EncodedSplit:
    """Turn a split into arrays, by its columns or, of documents, by their windows.

    Raises:
        ConfigError: the model cannot read documents.
        DataError: a label that the task does not name; no document is as long as a window.
    """
    if not isinstance(split, DocumentSplit):
        return featurizer.encode(split)
    assert split.corpus is not None, split.name
    plan = featurizer.plan
    find_input(plan)
    vocabulary = featurizer.vocabularies[plan.raw_layers[0].owner]
    assert isinstance(vocabulary, PieceVocabulary), type(vocabulary)
    pieces, length = read_pieces(vocabulary.tokenizer, plan.where), vocabulary.max_length
    documents = split.corpus.read_paragraphs(split.name)
    if split.name == "train":
        text = cut_text(split.name, encode_documents(documents, pieces), pieces, length=length)
        return build_masked_split(plan, text, find_rule(plan))
    text = mask_text(split.name, documents, pieces, length=length)
    return build_masked_split(plan, text).thin(MEASURED_WINDOWS)
