"""From examples to the arrays that a bundle's graph reads.

Shape letters: B batch, T tokens, K forms of a word, U distinct words, C characters or pieces in a
word, L pieces of a window, W windows, G types of phrases.
"""

import json
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeGuard, TypeVar

import numpy as np

from reglue_runtime.example import ExampleError, InputExample, pad
from reglue_runtime.manifest import Manifest
from reglue_runtime.session import Arrays
from reglue_runtime.text import FORMS, SPECIAL, mark_word

Source: TypeAlias = Callable[[Sequence[InputExample]], Arrays]
Spell: TypeAlias = Callable[[Sequence[str]], np.ndarray]
T = TypeVar("T")
Entry = tuple[str, str, float]
"""A phrase, its type and the type's weight."""
VECTOR_WIDTH = "vector_width"
"""The key of a note of numbers for the width of the vectors of tokens."""
LARGEST = float(np.finfo(np.float32).max)
"""The largest number that a graph of 32-bit floats can read."""


def build_sources(manifest: Manifest, folder: Path) -> list[Source]:
    """Return what makes the graph's inputs; each raises ExampleError where a column is missing."""
    return [_build_source(note, folder) for note in manifest.inputs]


def _build_source(note: Mapping[str, Any], folder: Path) -> Source:
    name, column = note["name"], note["column"]
    if note["source"] == "lengths":
        return lambda examples: {
            name: np.array([len(example.tokens[column]) for example in examples], np.int64)
        }
    if note["source"] == "words":
        return partial(_read_words, name=name, column=column, forms=note["forms"])
    if note["source"] == "spellings":
        spell: dict[str, Spell] = {}
        if note["characters"] is not None:
            spell[note["characters"]] = lambda words: pad([*map(list, words)], "", object)
        for item in note["pieces"]:
            spell[item["name"]] = _load_pieces(folder / item["file"], lowercase=item["lowercase"])
        return partial(_read_spellings, name=name, column=column, spell=spell)
    if note["source"] == "numbers":
        if VECTOR_WIDTH in note:
            return partial(_read_vectors, name=name, column=column, width=note[VECTOR_WIDTH])
        return partial(_read_numbers, name=name, column=column, width=note["width"])
    if note["source"] == "gazetteer":
        gazetteer = PhraseMatcher.read(folder / note["file"], lowercase=note["lowercase"])
        return lambda examples: {name: gazetteer.find(_list_tokens(examples, column))}
    from reglue_runtime.windows import build_windows

    return build_windows(note, folder)


def _list_tokens(examples: Sequence[InputExample], column: str) -> list[list[str]]:
    found = []
    for example in examples:
        words = example.tokens.get(column)
        if words is None:
            words = example.extras.get(column)
            size = len(next(iter(example.tokens.values())))
            if not _are_words(words, size):
                raise ExampleError(
                    example.place,
                    f"found {_show(words)} in '{column}', expected {size} words, one for each "
                    "token.",
                )
        found.append(list(words))
    return found


def _are_words(given: Any, size: int) -> TypeGuard[Sequence[str]]:
    is_list = given is not None and not isinstance(given, str) and len(given) == size
    return is_list and all(isinstance(word, str) for word in given)


def _read_words(
    examples: Sequence[InputExample], *, name: str, column: str, forms: Sequence[str]
) -> Arrays:
    """Return the forms of the words as strings, [K, B, T]; empty at padding."""
    texts = _list_tokens(examples, column)
    known = [["" if word in SPECIAL else word for word in words] for words in texts]
    spelt = [pad([list(map(FORMS[form], words)) for words in known], "", object) for form in forms]
    return {name: np.stack(spelt)}


def _read_spellings(
    examples: Sequence[InputExample], *, name: str, column: str, spell: Mapping[str, Spell]
) -> Arrays:
    """Return the distinct words' characters or pieces, [U, C], and each token's word, [B, T]."""
    texts = _list_tokens(examples, column)
    number: dict[str, int] = {}
    rows = [[number.setdefault(word, len(number)) for word in words] for words in texts]
    return {name: pad(rows, 0, np.int64)} | {
        key: function(list(number)) for key, function in spell.items()
    }


def _load_pieces(path: Path, *, lowercase: bool) -> Spell:
    # Imported here: only models of pieces need it.
    from tokenizers import Tokenizer

    model = Tokenizer.from_file(str(path)).model

    def spell(words: Sequence[str]) -> np.ndarray:
        cut = (model.tokenize(mark_word(word, lowercase=lowercase)) for word in words)
        return pad([[piece.id for piece in found] for found in cut], 0, np.int64)

    return spell


def _read_numbers(
    examples: Sequence[InputExample], *, name: str, column: str, width: int | None
) -> Arrays:
    """Return numbers of the examples, [B, W], or of their tokens, [B, T, 1], as 64-bit floats."""
    rows = []
    for example in examples:
        own = example.tokens.get(column) or next(iter(example.tokens.values()))
        size = len(own) if width is None else width
        given = example.extras.get(column)
        values = _as_numbers(given, size)
        if values is None:
            raise ExampleError(
                example.place,
                f"found {_show(given)} in '{column}', expected {size} numbers, finite in 32 bits.",
            )
        rows.append(values)
    if width is not None:
        return {name: np.stack(rows)}
    return {name: pad(rows, 0, np.float64)[:, :, None]}


def _read_vectors(
    examples: Sequence[InputExample], *, name: str, column: str, width: int
) -> Arrays:
    """Return vectors of the tokens, [B, T, W], as 64-bit floats."""
    size = max(len(next(iter(example.tokens.values()))) for example in examples)
    found: np.ndarray = np.zeros((len(examples), size, width), dtype=np.float64)
    for place, example in enumerate(examples):
        given, length = example.extras.get(column), len(next(iter(example.tokens.values())))
        parts = given if isinstance(given, Sequence | np.ndarray) else []
        rows = [_as_numbers(row, width) for row in parts]
        if len(rows) != length or any(row is None for row in rows):
            raise ExampleError(
                example.place,
                f"found {_show(given)} in '{column}', expected {length} vectors of {width} "
                "numbers, finite in 32 bits.",
            )
        found[place, :length] = rows
    return {name: found}


def _as_numbers(given: Any, size: int) -> np.ndarray | None:
    """Return what is given as numbers, or None where it is not that many finite ones."""
    try:
        # numpy would convert strings and booleans to floats
        values = np.array(given, dtype=object)
    except ValueError:  # arrays of several shapes
        return None
    if values.shape != (size,) or not all(map(_is_number, values)):
        return None
    return values.astype(np.float64)


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    return bool(-LARGEST <= value <= LARGEST)  # nan is not less than anything


def _show(given: Any) -> str:
    """Return the beginning of a value for a message."""
    return repr(given)[:60]


class Phrases(NamedTuple):
    """Phrases with the weights of their types, keyed by their words; types are sorted."""

    types: list[str]
    weights: dict[tuple[str, ...], np.ndarray]
    longest: int


def sum_phrase_weights(entries: Sequence[Entry], *, lowercase: bool) -> Phrases:
    """Sum the weights of equal phrases by type."""
    types = sorted({kind for _, kind, _ in entries})
    weights: dict[tuple[str, ...], np.ndarray] = {}
    for phrase, kind, weight in entries:
        words = tuple((phrase.lower() if lowercase else phrase).split())
        found = weights.setdefault(words, np.zeros(len(types), dtype=np.float32))
        found[types.index(kind)] += weight
    return Phrases(types, weights, max(map(len, weights), default=0))


def match_phrases(
    words: Sequence[T], phrases: Container[tuple[T, ...]], longest: int
) -> Iterator[tuple[int, tuple[T, ...]]]:
    """Yield the longest phrase at each place from the left, without overlap."""
    place = 0
    while place < len(words):
        for size in range(min(longest, len(words) - place), 0, -1):
            phrase = tuple(words[place : place + size])
            if phrase in phrases:
                yield place, phrase
                place += size
                break
        else:
            place += 1


class PhraseMatcher:
    def __init__(self, phrases: Phrases, *, lowercase: bool) -> None:
        self.phrases = phrases
        self.lowercase = lowercase

    @classmethod
    def read(cls, path: Path, *, lowercase: bool) -> "PhraseMatcher":
        """Read entries; their weights are strings, so that no digit is lost."""
        note = json.loads(path.read_text(encoding="utf-8"))["entries"]
        entries = [(phrase, kind, float(weight)) for phrase, kind, weight in note]
        return cls(sum_phrase_weights(entries, lowercase=lowercase), lowercase=lowercase)

    def find(self, texts: Sequence[Sequence[str]]) -> np.ndarray:
        """Return the weights of the types of the phrase around each token, [B, T, G]."""
        types, weights, longest = self.phrases
        shape = len(texts), max(map(len, texts)), len(types)
        found: np.ndarray = np.zeros(shape, dtype=np.float32)
        for row, words in enumerate(texts):
            folded = [word.lower() for word in words] if self.lowercase else words
            for place, phrase in match_phrases(folded, weights, longest):
                found[row, place : place + len(phrase)] = weights[phrase]
        return found
