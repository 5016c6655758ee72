"""Texts as the pieces of a pretrained encoder's tokenizer, in windows of limited length.

Shape letters: W windows of a batch, L pieces in a window, B batch, T places of an example.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from nlp_core.data.batching import Ragged, list_places
from nlp_core.data.split_column import Column, RawText, TextColumn, WordText
from nlp_core.data.vocabulary import Options
from nlp_core.errors import ConfigError, DataError
from reglue_runtime.pieces import join_pieces
from reglue_runtime.windows import begin_words, count_opening_pieces, cut_words, find_words

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MAX_LENGTH = 128
EXAMPLES_A_CHUNK = 2048
WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class Pieces:
    """The windows of all examples, and the places of words in them.

    Attributes:
        ids: the pieces of each window.
        segments: 1 for pieces of a second text, 0 elsewhere.
        windows: start of each example's windows, and the end, [N + 1].
        places: position of each place among its example's windows: the number of the window, times
            the longest window, plus the position in it; None: places are the pieces of the one
            window.
        padding: id of padding.
        parts: for pairs of whole texts 1 or 2 at pieces of the first or second text, 0 at special
            ones.
    """

    ids: Ragged
    segments: Ragged
    windows: np.ndarray
    places: Ragged | None
    padding: int
    parts: Ragged | None = None

    def outline(self) -> Ragged:
        """Return rows as long as the examples, in places."""
        return self.ids if self.places is None else self.places

    def take(self, rows: np.ndarray, *, multiple: int = 1) -> tuple[np.ndarray, ...]:
        """Return ids, segments and mask [W, L], and the position of each place in W * L, [B, T].

        Positions at padding are 0.
        """
        counts = self.windows[rows + 1] - self.windows[rows]
        first = np.cumsum(counts) - counts
        windows = list_places(self.windows[rows], counts)
        more = {"multiple": multiple}
        inside = self.ids.mask(windows, **more)
        width = inside.shape[1]
        if self.places is None:
            places = np.where(inside, np.arange(inside.size).reshape(inside.shape), 0)
        else:
            longest = int(self.ids.lengths.max())
            window, position = np.divmod(self.places.take(rows, **more), longest)
            places = (first[:, None] + window) * width + position
            places = np.where(self.places.mask(rows, **more), places, 0)
        ids = self.ids.take(windows, padding=self.padding, **more).astype(np.int64)
        return ids, self.segments.take(windows, **more).astype(np.int64), inside, places


class _Windows(NamedTuple):
    """The pieces and segments of an example's windows, and the places of its words or texts."""

    windows: list[list[int]]
    segments: list[list[int]]
    places: list[tuple[int, int]]
    parts: list[int] | None = None


@dataclass(frozen=True)
class PieceVocabulary:
    """The tokenizer and the configuration of a pretrained encoder; nothing is learned from columns.

    Attributes:
        tokenizer: JSON of the library `tokenizers`.
        config: the encoder's configuration, as `transformers` writes it.
        max_length: the most pieces of a window.
        stride: the pieces that consecutive windows of a long text share.
        weights: folder of the pretrained weights; None for a trained model.
    """

    tokenizer: str
    config: dict[str, Any]
    max_length: int
    stride: int
    weights: Path | None

    @classmethod
    def learn(cls, columns: Sequence[Column], options: Options, init: Path) -> Self:
        for name in ("tokenizer.json", "config.json", WEIGHTS):
            if not (init / name).is_file():
                raise DataError(
                    f"{init}: found no {name}, expected a pretrained encoder, such as "
                    "data/processed/minilm, in 'init'."
                )
        tokenizer = (init / "tokenizer.json").read_text(encoding="utf-8")
        path = init / "config.json"
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
            count_positions(config)
        except (ValueError, KeyError, TypeError, AttributeError) as err:
            raise DataError(
                f"{path}: found no configuration of an encoder ({type(err).__name__}: {err}); copy "
                "it again."
            ) from err
        return cls._build(tokenizer, config, options, init)

    @classmethod
    def from_note(cls, note: Mapping[str, Any], options: Options, init: Path) -> Self:
        return cls._build(json.dumps(note["tokenizer"]), note["config"], options, None)

    @classmethod
    def _build(
        cls, tokenizer: str, config: dict[str, Any], options: Options, init: Path | None
    ) -> Self:
        max_length = options.get("max_length", MAX_LENGTH)
        limit = count_positions(config)
        if max_length > limit:
            raise ConfigError(
                f"max_length: found {max_length}, expected at most {limit}, as the encoder."
            )
        stride = options.get("stride") or max_length // 4
        if stride >= max_length // 2:
            raise ConfigError(
                f"stride: found {stride}, expected less than half of max_length {max_length}."
            )
        return cls(tokenizer, config, max_length, stride, init)

    def describe(self) -> dict[str, Any]:
        return {"tokenizer": json.loads(self.tokenizer), "config": self.config}

    def __len__(self) -> int:
        return int(self.config["vocab_size"])

    def read(self, column: Column) -> Pieces:
        if isinstance(column, RawText):
            rows = self._read_texts(column)
        else:
            assert isinstance(column, WordText), type(column)
            rows = self._read_words(column)
        return self._join(list(rows), has_places=isinstance(column, WordText))

    def spell(self, texts: Iterable[str]) -> Ragged:
        """Return the pieces that write each text, with its end."""
        self._loaded.enable_truncation(self.max_length)
        end = self.config["eos_token_id"]
        rows = [self._loaded.encode(text).ids for text in texts]
        return Ragged.join([row if row[-1:] == [end] else [*row, end] for row in rows], np.int64)

    def write(self, ids: Sequence[int]) -> str:
        """Return the text of pieces; numbers below 0 come after its end."""
        return join_pieces(self._loaded, ids)

    def _read_texts(self, column: RawText) -> Iterator[_Windows]:
        """Yield each example as one window; the longer text is truncated first."""
        tokenizer = self._loaded
        tokenizer.enable_truncation(self.max_length)
        for start in range(0, len(column.first), EXAMPLES_A_CHUNK):
            chunk = slice(start, start + EXAMPLES_A_CHUNK)
            inputs: Sequence[Any] = column.first[chunk]
            if column.second is not None:
                inputs = list(zip(column.first[chunk], column.second[chunk], strict=True))
            for found in tokenizer.encode_batch(inputs):
                # not from segments, which some encoders do not have
                parts = [0 if part is None else part + 1 for part in found.sequence_ids]
                is_pair = column.second is not None
                yield _Windows([found.ids], [found.type_ids], [], parts if is_pair else None)

    def _read_words(self, column: WordText) -> Iterator[_Windows]:
        """Yield each example in as many windows as it needs, and the places of its words."""
        tokenizer = self._loaded_for_words
        has_context = column.before is not None
        tokenizer.no_truncation()
        openings = list(self._cut_openings(column.before)) if column.before is not None else []
        tokenizer.enable_truncation(
            self.max_length,
            stride=self.stride,
            strategy="only_second" if has_context else "longest_first",
        )
        size = len(column.words.offsets) - 1
        for start in range(0, size, EXAMPLES_A_CHUNK):
            rows = range(start, min(start + EXAMPLES_A_CHUNK, size))
            words: list[Any] = [column.words.row(row) for row in rows]
            inputs = words
            if has_context:
                inputs = [(openings[row], item) for row, item in zip(rows, words, strict=True)]
            found = tokenizer.encode_batch(inputs, is_pretokenized=True)
            for item, own in zip(words, found, strict=True):
                windows = [own, *own.overflowing]
                places = find_words(windows, len(item), sequence=int(has_context))
                yield _Windows([w.ids for w in windows], [w.type_ids for w in windows], places)

    def _cut_openings(self, column: TextColumn) -> Iterator[list[str]]:
        """Yield the first texts, cut so that most of a window is left to the second ones."""
        tokenizer = self._loaded_for_words
        most = count_opening_pieces(tokenizer, self.max_length, self.stride)
        if most < 1:
            raise ConfigError(
                f"max_length: found {self.max_length}, expected {self.max_length - most + 1} or "
                f"more: room for a piece of the first text and {self.stride + 1} (stride + 1) of "
                "the second."
            )
        for row in range(len(column.offsets) - 1):
            yield cut_words(column.row(row)[: self.max_length // 4], tokenizer, most)

    # Read once: that takes 30 ms, longer than to encode a sentence.
    @cached_property
    def _loaded(self) -> "Tokenizer":
        return _load(self.tokenizer)

    @cached_property
    def _loaded_for_words(self) -> "Tokenizer":
        return _load(begin_words(self.tokenizer))

    def _join(self, rows: list[_Windows], *, has_places: bool) -> Pieces:
        windows = [window for row in rows for window in row.windows]
        segments = [window for row in rows for window in row.segments]
        longest = max(map(len, windows))
        places = [[window * longest + place for window, place in row.places] for row in rows]
        parts = [row.parts for row in rows if row.parts is not None]
        return Pieces(
            Ragged.join(windows, np.int32, most=self.max_length),
            Ragged.join(segments, np.int8, most=self.max_length),
            np.cumsum([0, *(len(row.windows) for row in rows)]),
            Ragged.join(places, np.int64) if has_places else None,
            self.config.get("pad_token_id") or 0,
            Ragged.join(parts, np.int8, most=self.max_length) if parts else None,
        )


def _load(tokenizer_json: str) -> "Tokenizer":
    # A compiled library that only models with a pretrained encoder need.
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(tokenizer_json)
    tokenizer.no_padding()
    return tokenizer


def count_positions(config: Mapping[str, Any]) -> int:
    """Return the most pieces that an encoder reads at once."""
    positions = int(config.get("max_position_embeddings", 512))
    # these count their positions from the id of padding on
    begins_late = config["model_type"] in ("camembert", "mpnet", "roberta", "xlm-roberta")
    return positions - (int(config.get("pad_token_id") or 0) + 1 if begins_late else 0)
