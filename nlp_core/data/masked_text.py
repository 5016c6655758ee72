"""Held-out text with a fixed masking, the same for every encoder with the same tokenizer."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from nlp_core.data.corpus import HELD_OUT, Corpus
from nlp_core.data.masking import FIXED, Masked, MaskingRule, mask_pieces
from nlp_core.data.task import read_task
from nlp_core.data.window import (
    EncodedDocuments,
    Window,
    WindowBatch,
    build_batch,
    cut_windows,
    encode_documents,
)
from nlp_core.data.word_piece import PieceSet
from nlp_core.errors import ConfigError, DataError

LENGTH = 128
RULE = MaskingRule(share=0.15, most=LENGTH, hidden_prob=1.0, random_prob=0.0, whole_words=False)
"""Each chosen piece is hidden: none is left for the encoder to see."""
SEED = 2018
MEASURED_WINDOWS = 1024
"""Windows of a text that are measured in full."""
MOST_SHARDS = 16
TITLE = re.compile(r"^\s*= [^=].* =\s*$")
"""The heading of an article; those of its sections have more signs."""
UNKNOWN_WORD = "<unk>"


@dataclass(frozen=True)
class MaskedText:
    """Windows of a text that is measured.

    Attributes:
        name: what the text is called in history and table.
        encoded: the text as pieces.
        windows: of one segment, in their order.
        positions: the number of each window in the whole text, which seeds its masking.
        pieces: the tokenizer.
    """

    name: str
    encoded: EncodedDocuments
    windows: Sequence[Window]
    positions: Sequence[int]
    pieces: PieceSet

    def __len__(self) -> int:
        return len(self.windows)

    def thin(self, most: int) -> "MaskedText":
        """Return at most so many windows, spread evenly; each is masked as before."""
        if len(self) <= most:
            return self
        kept = [idx * len(self) // most for idx in range(most)]
        windows = [self.windows[idx] for idx in kept]
        positions = [self.positions[idx] for idx in kept]
        return MaskedText(self.name, self.encoded, windows, positions, self.pieces)

    def batch(
        self, rows: Sequence[int], rule: MaskingRule = RULE, key: Sequence[int] = (SEED,)
    ) -> tuple[WindowBatch, Masked]:
        """Return some windows, and the same with their pieces masked.

        Args:
            rows: which windows.
            rule: how their pieces are masked.
            key: with the position of a window the seed of its masking.
        """
        batch = build_batch(self.encoded, [self.windows[row] for row in rows], self.pieces)
        ids, places, targets = batch.ids.copy(), [], []
        for row, number in enumerate(rows):
            found = mask_pieces(
                batch.ids[row : row + 1],
                batch.words[row : row + 1],
                rule,
                mask=self.pieces.mask,
                ordinary=self.pieces.ordinary,
                # of the real pieces alone, so that what stands beside a window changes nothing
                generator=np.random.default_rng([*key, self.positions[number]]),
            )
            ids[row] = found.ids[0]
            places.append(found.places + row * batch.ids.shape[1])
            targets.append(found.targets)
        return batch, Masked(ids, np.concatenate(places), np.concatenate(targets))


def mask_text(
    name: str, documents: Iterable[Sequence[str]], pieces: PieceSet, *, length: int
) -> MaskedText:
    """Cut documents into windows that are measured.

    Args:
        name: what the text is called.
        documents: the paragraphs of each.
        pieces: the tokenizer.
        length: the most pieces that the encoder reads; above LENGTH it makes no difference.

    Raises:
        DataError: there is no text.
    """
    encoded = encode_documents(documents, pieces)
    unused = np.random.default_rng([SEED])
    windows = cut_windows(encoded, min(length, LENGTH), unused, short_prob=0.0)
    if not windows or (encoded.words == FIXED).all():
        raise DataError(
            f"{name}: found nothing to measure, expected text with pieces that the tokenizer knows."
        )
    return MaskedText(name, encoded, windows, range(len(windows)), pieces)


def read_held_out(corpus: Corpus) -> Iterator[Sequence[str]]:
    """Yield the paragraphs of the held-out documents, of the first shards of a large corpus."""
    for shard in range(min(corpus.count_shards(HELD_OUT), MOST_SHARDS)):
        for document in corpus.read_shard(HELD_OUT, shard):
            yield document.paragraphs


def read_running_text(folder: Path, unknown: str) -> Iterator[Sequence[str]]:
    """Yield the documents of a processed task of running text, those of the split it reports.

    A document begins at each heading of an article, as WikiText marks them. The signs that WikiText
    puts around hyphens and points in numbers are taken out; a word that it left out becomes the
    tokenizer's unknown piece, which nothing is asked about.

    Args:
        folder: data/processed/<task>.
        unknown: that piece.

    Raises:
        DataError: the task is not processed.
        ConfigError: it is of another kind.
    """
    task = read_task(folder)
    if not task.kind.predicts_words:
        raise ConfigError(
            f"{folder}: found the kind {task.kind}, expected language_model, such as "
            "data/processed/wikitext2; name one in the encoder's 'measured_on'."
        )
    table = pq.read_table(folder / f"{task.report_split}.parquet", columns=["text"])
    document: list[str] = []
    for text in table.column("text").to_pylist():
        if TITLE.match(text) and document:
            yield document
            document = []
        plain = re.sub(r" @([-,.])@ ", r"\1", text).replace(UNKNOWN_WORD, unknown)
        document.append(plain.strip())
    if document:
        yield document
