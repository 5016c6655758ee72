"""Documents as pieces, and the windows of them that an encoder is pretrained on.

Shape letters: B batch, L pieces of a window, P pieces of all documents, S sentences, N documents,
E windows.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

import numpy as np

from nlp_core.data.word_piece import PieceSet
from nlp_core.errors import DataError
from nlp_core.files import replacing_folder

Pairs = Literal["next_sentence", "sentence_order"]
"""What is predicted of two segments: whether the second follows, or whether they are in order."""

FIXED = -1
"""The word of a piece that is never masked: special pieces and padding."""
SENTENCES_A_CHUNK = 256
NUM_SPECIAL = {1: 2, 2: 3}
"""Special pieces around one segment, and around two."""
LEAST_PIECES = 2
YES, NO = 1, 0
FIELDS = {"ids": "int32", "words": "int32", "sentences": "int64", "documents": "int64"}
# a mark that ends a sentence, closing signs, a space, and what can begin a sentence
BOUNDARY = re.compile(r"(?<=[.!?])([\"'\u2019\u201d)\]]*)\s+(?=[\"'\u2018\u201c(\[]?[A-Z0-9])")
ABBREVIATION = re.compile(
    r"(?:^|[\s(\"'])(?:[A-Z]|Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|Gen|Col|Capt|Lt|Sgt|Rev|Hon|No|Nos|Vol|vs|"
    r"cf|ca|c|approx|fig|al|e\.g|i\.e|[A-Z]\.[A-Z])\.$"
)


def split_sentences(text: str) -> list[str]:
    """Split a paragraph after full stops, exclamation and question marks.

    A mark ends a sentence if a capital or a digit follows, except in an initial or a common
    abbreviation. The rule errs now and then; pre-training only needs consecutive pieces of text.
    """
    sentences, start = [], 0
    for match in BOUNDARY.finditer(text):
        if match[1] == "" and ABBREVIATION.search(text[start : match.start()]):
            continue
        sentences.append(text[start : match.end(1)].strip())
        start = match.end()
    sentences.append(text[start:].strip())
    return [sentence for sentence in sentences if sentence]


@dataclass(frozen=True)
class EncodedDocuments:
    """Documents as pieces, flat.

    Attributes:
        ids: the pieces, [P].
        words: the number of each piece's word in its sentence, FIXED where it is special, [P].
        sentences: where each sentence begins in `ids`, and the end, [S + 1].
        documents: where each document begins in `sentences`, and the end, [N + 1].
    """

    ids: np.ndarray
    words: np.ndarray
    sentences: np.ndarray
    documents: np.ndarray


class Window(NamedTuple):
    """One or two stretches of pieces; an empty second one means that there is one.

    Attributes:
        first: begin and end of the first segment in the flat pieces.
        answer: YES or NO for a pair; NO where there is none.
    """

    first: tuple[int, int]
    second: tuple[int, int]
    answer: int


class WindowBatch(NamedTuple):
    """Windows next to each other.

    Attributes:
        ids: pieces, [B, L].
        segments: 1 at the second segment, [B, L].
        inside: True at real pieces, [B, L].
        words: the number of each piece's word in its window, FIXED where none is, [B, L].
        answers: the answer to each pair, [B].
    """

    ids: np.ndarray
    segments: np.ndarray
    inside: np.ndarray
    words: np.ndarray
    answers: np.ndarray


def encode_documents(
    documents: Iterable[Sequence[str]], pieces: PieceSet, folder: Path | None = None
) -> EncodedDocuments:
    """Cut documents, each a list of paragraphs, into sentences and these into pieces.

    Args:
        folder: holds the arrays as files that are mapped into memory, so that memory does not grow
            with the corpus; one that exists is read instead of the documents. None: in memory.
    """
    if folder is None:
        buffers = {name: BytesIO() for name in FIELDS}
        _write_pieces(documents, pieces, buffers)
        arrays = {
            name: np.frombuffer(file.getvalue(), FIELDS[name]) for name, file in buffers.items()
        }
        return EncodedDocuments(**arrays)
    if not folder.exists():
        with replacing_folder(folder) as temporary, ExitStack() as stack:
            files = {name: stack.enter_context((temporary / name).open("wb")) for name in FIELDS}
            _write_pieces(documents, pieces, files)
    return EncodedDocuments(
        **{name: _map_file(folder / name, kind) for name, kind in FIELDS.items()}
    )


def _map_file(path: Path, kind: str) -> np.ndarray:
    if not path.stat().st_size:
        return np.zeros(0, kind)
    return np.asarray(np.memmap(path, np.dtype(kind), "r"))


def _write_pieces(
    documents: Iterable[Sequence[str]], pieces: PieceSet, files: Mapping[str, BinaryIO]
) -> None:
    """Write the arrays of `EncodedDocuments`, one sentence after the other."""
    is_ordinary = pieces.is_ordinary
    num_pieces = num_sentences = 0
    for name in ("sentences", "documents"):
        files[name].write(np.int64(0).tobytes())
    for paragraphs in documents:
        begin = num_sentences
        sentences = [sentence for text in paragraphs for sentence in split_sentences(text)]
        for start in range(0, len(sentences), SENTENCES_A_CHUNK):
            chunk = sentences[start : start + SENTENCES_A_CHUNK]
            for found in pieces.tokenizer.encode_batch(chunk, add_special_tokens=False):
                if not found.ids:
                    continue
                ids = np.array(found.ids, np.int32)
                words = np.array([FIXED if word is None else word for word in found.word_ids])
                files["ids"].write(ids.tobytes())
                words = np.where(is_ordinary[ids], words, FIXED)
                files["words"].write(words.astype(np.int32).tobytes())
                num_pieces, num_sentences = num_pieces + len(ids), num_sentences + 1
                files["sentences"].write(np.int64(num_pieces).tobytes())
        if num_sentences > begin:
            files["documents"].write(np.int64(num_sentences).tobytes())


def cut_windows(
    encoded: EncodedDocuments, length: int, generator: np.random.Generator, *, short_prob: float
) -> Iterator[Window]:
    """Yield the windows of each document, of one segment, one after the other.

    Args:
        length: most pieces of a window, including the special ones.
        generator: draws the short windows.
        short_prob: probability that a window is of a random shorter length.
    """
    most = length - NUM_SPECIAL[1]
    for start, stop in pairwise(encoded.documents):
        place, end = _span(encoded, start, stop)
        while end - place >= LEAST_PIECES:
            stop = min(place + _draw_size(most, generator, short_prob), end)
            yield Window((place, stop), (stop, stop), NO)
            place = stop


def pair_windows(
    encoded: EncodedDocuments,
    length: int,
    generator: np.random.Generator,
    *,
    short_prob: float,
    pairs: Pairs,
) -> Iterator[Window]:
    """Yield the windows of each document, of two segments of whole sentences.

    Sentences are gathered until a window is full and parted at a random place. For next_sentence
    the second segment is, in one half of all windows, from another document instead (answer NO),
    and the sentences that it displaced begin the next window. For sentence_order the two segments
    change places in one half of all windows (answer NO).

    Args:
        length: most pieces of a window, including the special ones.
        short_prob: probability that a window is of a random shorter length.
        pairs: what is predicted of them.

    Raises:
        DataError: there is no second document that another segment could come from.

    Source: Devlin et al. 2019 (BERT), appendix A.2; Lan et al. 2020 (ALBERT), section 3.1.
    Note: a window of a single sentence has no order, and is left out of sentence_order.
    """
    num_documents = len(encoded.documents) - 1
    if pairs == "next_sentence" and num_documents < 2:
        raise DataError(
            f"next_sentence: found {num_documents} documents of text together, expected at least "
            "two, since a segment of another document replaces the next one. Choose "
            "`pairs: sentence_order` or null for a corpus of so few documents."
        )
    most = length - NUM_SPECIAL[2]
    for number, (start, end) in enumerate(pairwise(encoded.documents)):
        while start < end:
            size = _draw_size(most, generator, short_prob)
            stop = _gather(encoded, start, end, size)
            middle = start + 1 if stop - start < 2 else int(generator.integers(start + 1, stop))
            first = _span(encoded, start, middle)
            if pairs == "next_sentence":
                is_next = stop > middle and generator.random() < 0.5
                if is_next:
                    second = _span(encoded, middle, stop)
                else:
                    second = _draw_other(encoded, number, size, generator)
                    stop = middle
                yield _fit(Window(first, second, int(is_next)), most, generator)
            elif stop > middle:
                second = _span(encoded, middle, stop)
                window = _fit(Window(first, second, YES), most, generator)
                if generator.random() < 0.5:
                    window = Window(window.second, window.first, NO)
                yield window
            start = stop


def build_batch(
    encoded: EncodedDocuments, windows: Sequence[Window], pieces: PieceSet
) -> WindowBatch:
    """Put windows next to each other, with the special pieces around their segments."""
    rows = [_build_row(encoded, window, pieces) for window in windows]
    shape = len(rows), max(len(ids) for ids, _, _ in rows)
    ids = np.full(shape, pieces.padding, dtype=np.int64)
    words = np.full(shape, FIXED, dtype=np.int64)
    segments = np.zeros(shape, dtype=np.int64)
    inside = np.zeros(shape, dtype=bool)
    for row, (own, numbers, num_first) in enumerate(rows):
        ids[row, : len(own)] = own
        words[row, : len(own)] = numbers
        segments[row, num_first : len(own)] = 1
        inside[row, : len(own)] = True
    return WindowBatch(ids, segments, inside, words, np.array([item.answer for item in windows]))


def _build_row(
    encoded: EncodedDocuments, window: Window, pieces: PieceSet
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return pieces and words of a window, and the pieces of its first segment."""
    spans = [window.first] + ([window.second] if window.second[0] < window.second[1] else [])
    ids: list[np.ndarray | list[int]] = [[pieces.first]]
    words: list[np.ndarray | list[int]] = [[FIXED]]
    num_words = 0
    for begin, end in spans:
        own = _number_words(encoded, begin, end)
        words += [np.where(own == FIXED, FIXED, own + num_words), [FIXED]]
        num_words += int(own.max(initial=FIXED)) + 1
        ids += [encoded.ids[begin:end], [pieces.last]]
    num_first = window.first[1] - window.first[0] + NUM_SPECIAL[1]
    return np.concatenate(ids), np.concatenate(words), num_first


def _number_words(encoded: EncodedDocuments, begin: int, end: int) -> np.ndarray:
    """Return the numbers of the words of a stretch, counted through all its sentences."""
    words = encoded.words[begin:end]
    borders = encoded.sentences[
        np.searchsorted(encoded.sentences, begin, "right") : np.searchsorted(encoded.sentences, end)
    ]
    is_new = np.diff(words, prepend=FIXED) != 0
    is_new[borders - begin] = True
    return np.where(words == FIXED, FIXED, np.cumsum(is_new & (words != FIXED)) - 1)


def _draw_size(most: int, generator: np.random.Generator, short_prob: float) -> int:
    if short_prob and generator.random() < short_prob:
        return int(generator.integers(LEAST_PIECES, most, endpoint=True))
    return most


def _gather(encoded: EncodedDocuments, start: int, end: int, size: int) -> int:
    """Return where a run of sentences ends that has at least `size` pieces, or the document."""
    wanted = encoded.sentences[start] + size
    stop = int(np.searchsorted(encoded.sentences[start + 1 : end + 1], wanted)) + start + 1
    return min(stop, int(end))


def _span(encoded: EncodedDocuments, start: int, stop: int) -> tuple[int, int]:
    return int(encoded.sentences[start]), int(encoded.sentences[stop])


def _draw_other(
    encoded: EncodedDocuments, number: int, size: int, generator: np.random.Generator
) -> tuple[int, int]:
    """Return sentences of a random other document, from a random one on."""
    other = int(generator.integers(len(encoded.documents) - 2))
    other += int(other >= number)
    begin, end = encoded.documents[other], encoded.documents[other + 1]
    start = int(generator.integers(begin, end))
    return _span(encoded, start, _gather(encoded, start, end, size))


def _fit(window: Window, most: int, generator: np.random.Generator) -> Window:
    """Shorten the longer segment, at its begin and its end at random, until both fit."""
    sizes = [window.first[1] - window.first[0], window.second[1] - window.second[0]]
    kept = [
        max(min(sizes[0], most - min(sizes[1], most // 2)), 1),
        max(min(sizes[1], most - min(sizes[0], most - most // 2)), 1),
    ]
    spans = []
    for (begin, end), size in zip((window.first, window.second), kept, strict=True):
        begin += int(generator.binomial(end - begin - size, 0.5))
        spans.append((begin, begin + size))
    return Window(spans[0], spans[1], window.answer)
