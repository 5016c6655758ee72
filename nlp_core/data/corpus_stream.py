"""The training part of a corpus as endless batches of windows, in an order that can be resumed.

A few shards at a time make a pool: their documents are cut into windows, the windows are shuffled
and sorted into batches of like lengths. What a pool holds depends on the seed, the epoch and the
number of the pool alone, so that a run goes on in the middle of one without reading those before.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nlp_core.data.batching import order_training_batches
from nlp_core.data.corpus import TRAIN, Corpus
from nlp_core.data.window import (
    EncodedDocuments,
    Pairs,
    Window,
    WindowBatch,
    build_batch,
    cut_windows,
    encode_documents,
    pair_windows,
)
from nlp_core.data.word_piece import PieceSet
from nlp_core.errors import DataError

log = logging.getLogger(__name__)

SHARDS_A_POOL = 4
BUCKET_BATCHES = 16
ORDER, WINDOWS = 1, 2  # which generator of an epoch, or of a pool


class Place(NamedTuple):
    """A place in the stream: the next batch.

    Attributes:
        epoch: pass over the corpus, from 1.
        pool: number of the pool in it, from 0.
        batch: number of the batch in that, from 0.
    """

    epoch: int = 1
    pool: int = 0
    batch: int = 0


class PlacedBatch(NamedTuple):
    """A batch and the place behind it."""

    batch: WindowBatch
    after: Place


@dataclass(frozen=True)
class CorpusStream:
    """Windows of a corpus for training.

    Attributes:
        corpus: the documents.
        pieces: the tokenizer.
        pairs: what is asked of two segments; None: a window is one segment.
        short_prob: probability of a window of a random shorter length.
        seed: of the order and of all that is drawn.
    """

    corpus: Corpus
    pieces: PieceSet
    pairs: Pairs | None
    short_prob: float
    seed: int

    def read(self, start: Place, *, length: int, batch_size: int) -> Iterator[PlacedBatch]:
        """Yield batches from a place on, epoch after epoch without an end.

        Args:
            start: where to begin.
            length: most pieces of a window.
            batch_size: windows of a batch; the last one of a pool may be smaller.

        Raises:
            DataError: the corpus gives no window.
        """
        pools = -(-self.corpus.count_shards(TRAIN) // SHARDS_A_POOL)
        epoch, pool, batch = start
        num_empty = 0
        while num_empty < pools:
            if pool >= pools:
                epoch, pool, batch = epoch + 1, 0, 0
            encoded, windows = self._build_pool(epoch, pool, length)
            batches = self._order(windows, batch_size, epoch, pool)
            for number in range(batch, len(batches)):
                chosen = [windows[row] for row in batches[number]]
                after = Place(epoch, pool, number + 1)
                yield PlacedBatch(build_batch(encoded, chosen, self.pieces), after)
            num_empty = 0 if batches else num_empty + 1
            pool, batch = pool + 1, 0
        raise DataError(
            f"{self.corpus.folder}: found no window of {length} pieces in any document, expected "
            "at least one; the documents are too short for what the encoder asks of a pair."
        )

    def _build_pool(
        self, epoch: int, pool: int, length: int
    ) -> tuple[EncodedDocuments, list[Window]]:
        order = np.random.default_rng([self.seed, ORDER, epoch])
        shards = order.permutation(self.corpus.count_shards(TRAIN))
        documents = (
            document.paragraphs
            for shard in shards[pool * SHARDS_A_POOL : (pool + 1) * SHARDS_A_POOL]
            for document in self.corpus.read_shard(TRAIN, int(shard))
        )
        encoded = encode_documents(documents, self.pieces)
        generator = np.random.default_rng([self.seed, WINDOWS, epoch, pool])
        if self.pairs is None:
            windows = cut_windows(encoded, length, generator, short_prob=self.short_prob)
        else:
            windows = pair_windows(
                encoded, length, generator, short_prob=self.short_prob, pairs=self.pairs
            )
        log.info("pretrain pool epoch=%d pool=%d windows=%d", epoch, pool, len(windows))
        return encoded, windows

    def _order(
        self, windows: list[Window], batch_size: int, epoch: int, pool: int
    ) -> list[np.ndarray]:
        if not windows:
            return []
        return order_training_batches(
            np.array([window.num_pieces for window in windows]),
            batch_size=batch_size,
            bucket_batches=BUCKET_BATCHES,
            seed=self.seed,
            epoch=epoch * (1 << 20) + pool,  # a number of its own for each pool
        )
