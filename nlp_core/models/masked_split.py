"""Windows of a corpus as examples whose pieces are hidden, each time otherwise while training."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

from nlp_core.config.reader import TEXTS
from nlp_core.data.batching import Ragged
from nlp_core.data.corpus import TRAIN
from nlp_core.data.corpus_task import DocumentSplit
from nlp_core.data.masked_text import MEASURED_WINDOWS, RULE, SEED, MaskedText, mask_text
from nlp_core.data.masking import MaskingRule
from nlp_core.data.pieces import PieceVocabulary
from nlp_core.data.task import Split
from nlp_core.data.window import NUM_SPECIAL, cut_windows, encode_documents
from nlp_core.data.word_piece import PieceSet, read_pieces
from nlp_core.errors import ConfigError, DataError
from nlp_core.heads import MaskedLanguageModelHead
from nlp_core.kinds import MASKED
from nlp_core.models.features import IGNORED, Batch, EncodedSplit, Featurizer, raw_layers
from nlp_core.models.graph import GraphModel
from nlp_core.models.plan import ModelPlan

HEADS = "lm_head.safetensors"
"""The heads of an encoder that was pretrained here, beside it."""
MASKING = 5  # which generator of a step


@dataclass(frozen=True)
class MaskedSplit(EncodedSplit):
    """Windows of a text with hidden pieces.

    Attributes:
        text: the windows.
        rule: how pieces are hidden.
        key: with the position of a window the seed of its masking.
        layers: names of the layers that read the pieces.
        input: name of the model's input of whole texts.
    """

    text: MaskedText | None = None
    rule: MaskingRule = RULE
    key: tuple[int, ...] = (SEED,)
    layers: tuple[str, ...] = ()
    input: str = TEXTS

    def draw(self, seed: int, step: int) -> "MaskedSplit":
        """Return the windows with other pieces hidden, which depend on seed and step alone."""
        return replace(self, key=(seed, MASKING, step))

    def batch(self, rows: np.ndarray) -> Batch:
        """Return some windows as tensors."""
        assert self.text is not None
        windows, masked = self.text.batch(rows.tolist(), self.rule, self.key)
        inside = windows.inside
        places = np.where(inside, np.arange(inside.size).reshape(inside.shape), 0)
        targets = np.full(inside.size, IGNORED, dtype=np.int64)
        targets[masked.places] = masked.targets
        read = (masked.ids, windows.segments, inside, places)
        fields = tuple(torch.from_numpy(array) for array in read)
        return Batch(
            features=dict.fromkeys(self.layers, fields),
            masks={self.input: torch.from_numpy(inside)},
            targets={MASKED: torch.from_numpy(targets.reshape(inside.shape))},
            rows=rows,
        )


def encode_split(featurizer: Featurizer, split: Split) -> EncodedSplit:
    """Turn a split into arrays, by its columns or, of documents, by their windows.

    Raises:
        ConfigError: the model cannot read documents.
        DataError: a label that the task does not name; no document is as long as a window.
    """
    if not isinstance(split, DocumentSplit):
        return featurizer.encode(split)
    plan = featurizer.plan
    layers = list(raw_layers(plan))
    vocabularies = [featurizer.vocabularies[layer.owner] for layer in layers]
    inputs = {name for layer in layers for name in layer.inputs}
    if set(plan.inputs[name] for name in inputs) != {TEXTS} or len(inputs) != 1:
        raise ConfigError(
            f"{plan.where}: inputs: found {', '.join(sorted(plan.inputs.values()))} below the head "
            f"of a corpus, expected {TEXTS} alone."
        )
    vocabulary = vocabularies[0]
    assert isinstance(vocabulary, PieceVocabulary), type(vocabulary)
    pieces = read_pieces(vocabulary.tokenizer, plan.where)
    is_trained = split.name == TRAIN
    text = _cut(split, pieces, vocabulary.max_length, is_trained=is_trained)
    lengths = [window.num_pieces + NUM_SPECIAL[1] for window in text.windows]
    examples = Split(split.name, np.arange(len(text)), {}, {}, None)
    encoded = MaskedSplit(
        split=examples,
        features={},
        inputs={(name := inputs.pop()): Ragged(np.empty(0), np.cumsum([0, *lengths]))},
        targets={},
        text=text,
        rule=_find_rule(plan) if is_trained else RULE,
        layers=tuple(layer.name for layer in layers),
        input=name,
    )
    if is_trained:
        return encoded
    every = encoded.batch(np.arange(len(text)))
    counts = (every.targets[MASKED] != IGNORED).sum(1).double().tolist()
    return replace(encoded, split=replace(examples, targets={MASKED: counts}))


def _cut(split: DocumentSplit, pieces: PieceSet, length: int, *, is_trained: bool) -> MaskedText:
    if not is_trained:
        text = mask_text(split.name, split.documents, pieces, length=length)
        return text.thin(MEASURED_WINDOWS)
    encoded = encode_documents(split.documents, pieces)
    windows = cut_windows(encoded, length, np.random.default_rng([SEED]), short_prob=0.0)
    if not windows:
        raise DataError(
            f"{split.name}: found no document of two pieces in the corpus, expected one at least."
        )
    return MaskedText(split.name, encoded, windows, range(len(windows)), pieces)


def _find_rule(plan: ModelPlan) -> MaskingRule:
    """Return how the head says that pieces are hidden."""
    (head,) = plan.heads.values()
    assert issubclass(head.head, MaskedLanguageModelHead), head.name
    return head.head.find_rule(head.options)


def give_pretrained_head(model: GraphModel, init: Path) -> None:
    """Let heads of masked pieces go on with that of an encoder that was pretrained here."""
    if not (init / HEADS).exists():
        return
    kept = load_file(init / HEADS)
    for head in model.heads.values():
        if isinstance(head, MaskedLanguageModelHead):
            head.load_state_dict({key: kept[key] for key in head.state_dict()})
