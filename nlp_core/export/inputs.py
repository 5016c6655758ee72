"""Plan the inputs of a model's graph: strings, lengths, numbers and pieces, not torch batches.

Tables in the graph turn strings into ids before torch's part; see `graph.py`.

Shape letters: B batch, T tokens, K forms of a word, U distinct words, C characters or pieces in a
word, W windows, L pieces of a window.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import nn

from nlp_core.config.column import SINGLE_TEXTS, TOKEN_VECTORS, WHOLE_TEXTS
from nlp_core.config.model import find_axes
from nlp_core.data.case import CaseVocabulary
from nlp_core.data.gazetteer import GazetteerVocabulary
from nlp_core.data.pieces import PieceVocabulary
from nlp_core.data.vocabulary import (
    CharacterVocabulary,
    NumberVocabulary,
    SubwordVocabulary,
    WordVocabulary,
)
from nlp_core.errors import ConfigError
from nlp_core.export.reading import (
    ReadIds,
    ReadNumbers,
    ReadTensors,
    ReadTexts,
    ReadWindows,
    WordForm,
)
from nlp_core.models.features import Featurizer
from nlp_core.models.plan import LayerPlan, find_source
from reglue_runtime.featurizing import VECTOR_WIDTH
from reglue_runtime.text import SPECIAL

Note = dict[str, Any]  # Any: JSON
NOT_FOUND = -1
NUM_SPECIAL = 2
"""Special pieces of a window."""


class StringTable(NamedTuple):
    """A dictionary in the graph, from the strings of `source` to `target`, an input for torch.

    `default`: id of any other string.
    """

    source: str
    target: str
    ids: dict[str, int]
    default: int


class TensorPlan(NamedTuple):
    """An input as torch sees it; a dimension is a letter with its column, or a fixed size."""

    dtype: torch.dtype
    shape: tuple[str | int, ...]

    def fill(self, sizes: Mapping[str, int]) -> list[int]:
        """Return the shape with numbers for its letters."""
        return [sizes[size] if isinstance(size, str) else size for size in self.shape]


@dataclass
class InputPlan:
    """All inputs of a graph.

    Attributes:
        notes: the manifest's part: what the runtime makes.
        tensors: torch's inputs by name.
        strings: shape of each string input of the graph.
        tables: from strings to ids.
        files: content of further files of the bundle, by name.
        readers: for each input layer what maps the tensors to its block's arguments.
        lengths: for each model input with tokens the tensor with its lengths.
        limits: smallest and largest value of each limited size.
    """

    notes: list[Note] = field(default_factory=list)
    tensors: dict[str, TensorPlan] = field(default_factory=dict)
    strings: dict[str, tuple[str | int, ...]] = field(default_factory=dict)
    tables: list[StringTable] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    readers: dict[str, nn.Module] = field(default_factory=dict)
    lengths: dict[str, str] = field(default_factory=dict)
    limits: dict[str, tuple[int, int]] = field(default_factory=dict)

    def describe(self, source: str, name: str, column: str, **options: object) -> None:
        """Add a note."""
        self.notes.append({"name": name, "source": source, "column": column, **options})


def plan_inputs(featurizer: Featurizer) -> InputPlan:
    """Return the inputs of a model's graph.

    Raises:
        ConfigError: a layer reads something that no bundle can make.
    """
    plan, found = featurizer.plan, InputPlan()
    by_column: dict[str, list[LayerPlan]] = {}
    for layer in plan.raw_layers:
        by_column.setdefault(plan.inputs[layer.inputs[0]], []).append(layer)
    for name, column in plan.inputs.items():
        if column not in WHOLE_TEXTS:
            for axis in find_axes(column):
                lengths = found.lengths[name] = f"{axis}.lengths"
                if lengths not in found.tensors:
                    found.tensors[lengths] = TensorPlan(torch.int64, ("B",))
                    found.describe("lengths", lengths, axis)
    sources = sorted({find_source(column) for column in by_column})
    for source in sources:
        words = {layer.name: layer for layer in by_column.get(source, [])}
        spelt = by_column.get(f"{source}.characters", [])
        looked_up = {
            name: vocabulary
            for name, layer in words.items()
            if isinstance(vocabulary := featurizer.vocabularies[layer.owner], WordVocabulary)
        }
        if looked_up:
            _add_words(found, source, looked_up)
        if spelt:
            _add_spellings(
                found, source, {item.name: featurizer.vocabularies[item.owner] for item in spelt}
            )
        for name in words.keys() - looked_up.keys():
            _add_other(found, source, words[name], featurizer, plan.inputs)
    return found


def list_forms(vocabulary: WordVocabulary) -> list[WordForm]:
    """Return the look-ups of a word in a vocabulary's order.

    This is `WordVocabulary.encode` as look-ups: the word, lowercased if case is folded; the vector
    of its lowercase form; both again with 0 for its digits.
    """
    if isinstance(vocabulary, CaseVocabulary):
        return [WordForm("case", is_vector=False)]
    rules, has_vectors = vocabulary.rules, vocabulary.table is not None
    plain, lower = ("lower", None) if rules.lowercase else ("plain", "lower")
    forms = [WordForm(plain, is_vector=False)]
    if has_vectors and lower:
        forms.append(WordForm(lower, is_vector=True))
    if rules.digits_to_zero:
        zero = {"plain": "zero", "lower": "lower_zero"}
        forms += [form._replace(name=zero[form.name]) for form in forms]
    return forms


def _add_words(found: InputPlan, column: str, vocabularies: Mapping[str, WordVocabulary]) -> None:
    names: dict[str, int] = {}
    for vocabulary in vocabularies.values():
        for form in list_forms(vocabulary):
            names.setdefault(form.name, len(names))
    shape = (len(names), "B", f"T:{find_axes(column)[0]}")
    found.strings[column] = shape
    found.describe("words", column, column, forms=list(names))
    for layer, vocabulary in vocabularies.items():
        target = f"{column}.{layer}.ids"
        rows = {} if vocabulary.table is None else vocabulary.table.row_of
        size = len(vocabulary)
        ids = {word: size + row for word, row in rows.items() if word not in SPECIAL}
        found.tables.append(StringTable(column, target, {**ids, **vocabulary.ids}, NOT_FOUND))
        found.tensors[target] = TensorPlan(torch.int64, shape)
        own_rows = [size + rows[word] if word in rows else NOT_FOUND for word in vocabulary.words]
        forms = [form._replace(place=names[form.name]) for form in list_forms(vocabulary)]
        found.readers[layer] = ReadIds(target, forms, torch.tensor(own_rows))


def _add_spellings(found: InputPlan, column: str, vocabularies: Mapping[str, object]) -> None:
    index, time = f"{column}.index", f"T:{find_axes(column)[0]}"
    found.tensors[index] = TensorPlan(torch.int64, ("B", time))
    characters: str | None = None
    pieces = []
    for layer, vocabulary in vocabularies.items():
        if isinstance(vocabulary, CharacterVocabulary):
            characters = f"{column}.characters"
            target = f"{characters}.{layer}.ids"
            ids = {"": 0, **vocabulary.ids}
            found.tables.append(StringTable(characters, target, ids, SPECIAL.index("<unk>")))
            found.strings[characters] = (f"U:{column}", f"C:{column}")
        elif isinstance(vocabulary, SubwordVocabulary):
            target, file = f"{column}.{layer}.pieces", f"{layer}.tokenizer.json"
            pieces.append({"name": target, "file": file, "lowercase": vocabulary.lowercase})
            found.files[file] = vocabulary.tokenizer
        else:
            raise _refuse(layer, vocabulary)
        found.tensors[target] = TensorPlan(torch.int64, (f"U:{column}", f"C:{target}"))
        found.readers[layer] = ReadTensors(target, index)
    found.describe("spellings", index, column, characters=characters, pieces=pieces)


def _add_other(
    found: InputPlan,
    source: str,
    layer: LayerPlan,
    featurizer: Featurizer,
    inputs: Mapping[str, str],
) -> None:
    vocabulary = featurizer.vocabularies[layer.owner]
    if isinstance(vocabulary, PieceVocabulary):
        _add_encoder(found, source, layer, vocabulary)
    elif isinstance(vocabulary, NumberVocabulary):
        axes = find_axes(source)
        width, size = None if axes else len(vocabulary), len(vocabulary)
        shape: tuple[str | int, ...] = ("B", f"T:{axes[0]}", size) if axes else ("B", size)
        if source not in found.tensors:
            found.tensors[source] = TensorPlan(torch.float64, shape)
            options = {VECTOR_WIDTH: size} if source.startswith(TOKEN_VECTORS) else {}
            found.describe("numbers", source, source, width=width, **options)
        found.readers[layer.name] = ReadNumbers(source, vocabulary.mean, vocabulary.std)
    elif isinstance(vocabulary, GazetteerVocabulary):
        name, file = f"{source}.{layer.name}.matches", f"{layer.name}.gazetteer.json"
        found.tensors[name] = TensorPlan(
            torch.float32, ("B", f"T:{find_axes(source)[0]}", len(vocabulary))
        )
        found.files[file] = json.dumps(vocabulary.describe(), ensure_ascii=False, indent=2) + "\n"
        found.describe("gazetteer", name, source, file=file, lowercase=vocabulary.lowercase)
        found.readers[layer.name] = ReadTensors(name)
    else:
        raise _refuse(layer.name, vocabulary)


def _add_encoder(
    found: InputPlan, column: str, layer: LayerPlan, vocabulary: PieceVocabulary
) -> None:
    name, is_whole = layer.name, column in WHOLE_TEXTS
    axis = "" if is_whole else find_axes(column)[0]
    window = (f"W:{name}" if not is_whole else "B", f"L:{name}")
    found.limits[f"L:{name}"] = NUM_SPECIAL, vocabulary.max_length
    reads_segments = bool(vocabulary.config.get("type_vocab_size", 0) > 1)
    found.tensors[f"{name}.ids"] = TensorPlan(torch.int64, window)
    found.tensors[f"{name}.lengths"] = TensorPlan(torch.int64, window[:1])
    if reads_segments:
        found.tensors[f"{name}.segments"] = TensorPlan(torch.int64, window)
    file = f"{layer.owner}.tokenizer.json"
    found.files[file] = vocabulary.tokenizer
    found.describe(
        "windows",
        name,
        column if column in SINGLE_TEXTS else axis,
        before="tokens_a" if axis == "tokens_b" else None,
        file=file,
        max_length=vocabulary.max_length,
        stride=None if is_whole else vocabulary.stride,
        padding=vocabulary.config.get("pad_token_id") or 0,
        segments=reads_segments,
    )
    if is_whole:
        found.lengths[layer.inputs[0]] = f"{name}.lengths"
        found.readers[name] = ReadTexts(name, reads_segments=reads_segments)
    else:
        found.tensors[f"{name}.places"] = TensorPlan(torch.int64, ("B", f"T:{axis}"))
        found.readers[name] = ReadWindows(name, reads_segments=reads_segments)


def _refuse(layer: str, vocabulary: object) -> ConfigError:
    return ConfigError(
        f"layer '{layer}': reads its column by a {type(vocabulary).__name__}, which needs the "
        "training code; export a model without that layer."
    )
