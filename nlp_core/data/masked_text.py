"""Masked pieces: which of a batch are masked and by what, and the windows of a text with them.

Shape letters: B batch, L pieces of a window, E windows, M masked pieces of a batch, V vocabulary.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq

from nlp_core.config.pretraining import MaskingConfig
from nlp_core.data.task import read_task
from nlp_core.data.window import (
    FIXED,
    NUM_SPECIAL,
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
from nlp_core.errors import ConfigError, DataError
from nlp_core.files import name_local


class Masked(NamedTuple):
    """A batch with masked pieces.

    Attributes:
        ids: what the model reads, [B, L].
        positions: where the flat batch is masked, sorted, [M].
        targets: the pieces that were masked, [M].
    """

    ids: np.ndarray
    positions: np.ndarray
    targets: np.ndarray


def mask_pieces(
    ids_BL: np.ndarray,
    words_BL: np.ndarray,
    rule: MaskingConfig,
    *,
    mask: int,
    ordinary: np.ndarray,
    generator: np.random.Generator,
) -> Masked:
    """Choose pieces of each window and hide most of them.

    Of n pieces that may be masked, max(1, round(share n)) are, and at most `most`.

    Args:
        words_BL: the number of each piece's word in its window; FIXED where it is not masked.
        mask: id of the piece that hides another.
        ordinary: the pieces that a random one is drawn from.

    Source: Devlin et al. 2019 (BERT), section 3.1 and appendix A.1.
    """
    width = ids_BL.shape[1]
    chosen = [choose_pieces(words_L, rule, generator) for words_L in words_BL]
    positions_M = np.concatenate([row * width + np.sort(found) for row, found in enumerate(chosen)])
    targets_M = ids_BL.ravel()[positions_M]
    draw_M = generator.random(len(positions_M))
    other_M = ordinary[generator.integers(len(ordinary), size=len(positions_M))]
    is_random_M = draw_M < rule.hidden_prob + rule.random_prob
    read_M = np.where(is_random_M, other_M, targets_M)
    read_M = np.where(draw_M < rule.hidden_prob, mask, read_M)
    masked_BL = ids_BL.copy()
    masked_BL.ravel()[positions_M] = read_M
    return Masked(masked_BL, positions_M, targets_M)


def choose_pieces(
    words_L: np.ndarray, rule: MaskingConfig, generator: np.random.Generator
) -> np.ndarray:
    """Return the positions of a window that are masked; none where nothing may be.

    With whole words a word that would be too much is passed over, so that a few pieces less than
    the share may be masked; the first word drawn is taken as long as it has at most `most` pieces.
    """
    (candidates,) = np.nonzero(words_L != FIXED)
    if not len(candidates):
        return candidates
    wanted = min(max(1, round(rule.share * len(candidates))), rule.most)
    if not rule.whole_words:
        return generator.permutation(candidates)[:wanted]
    begins = np.flatnonzero(np.diff(words_L[candidates], prepend=FIXED))
    words = np.split(candidates, begins[1:])
    taken: list[np.ndarray] = []
    num_taken = 0
    for idx in generator.permutation(len(words)):
        limit = wanted if taken else max(wanted, rule.most)
        if num_taken + len(words[idx]) <= limit:
            taken.append(words[idx])
            num_taken += len(words[idx])
        if num_taken >= wanted:
            break
    return np.concatenate(taken) if taken else candidates[:0]


LENGTH = 128
RULE = MaskingConfig(share=0.15, most=LENGTH, hidden_prob=1.0, random_prob=0.0, whole_words=False)
"""The masking of a measured text: no chosen piece is left for the encoder to see."""
SEED = 2018
TITLE = re.compile(r"^\s*= [^=].* =\s*$")
"""The heading of an article; those of its sections have more signs."""
UNKNOWN_WORD = "<unk>"


@dataclass(frozen=True)
class MaskedText:
    """Windows of a text.

    Attributes:
        name: what the text is called in history and table.
        windows: for each window the numbers of `Window` in their order, [E, 5].
        numbers: the number of each window in the whole text, which seeds its masking, [E].
    """

    name: str
    encoded: EncodedDocuments
    windows: np.ndarray
    numbers: np.ndarray
    pieces: PieceSet

    def __len__(self) -> int:
        return len(self.windows)

    @property
    def lengths(self) -> np.ndarray:
        """Pieces of each window, including the special ones, [E]."""
        sizes = self.windows[:, [1, 3]] - self.windows[:, [0, 2]]
        special = np.where(sizes[:, 1] > 0, NUM_SPECIAL[2], NUM_SPECIAL[1])
        lengths: np.ndarray = sizes.sum(1) + special
        return lengths

    @property
    def answers(self) -> np.ndarray:
        """The answer to each pair of segments, [E]."""
        return self.windows[:, 4]

    @property
    def documents(self) -> np.ndarray:
        """The document of each window's first segment, [E]."""
        begins = self.encoded.sentences[self.encoded.documents[:-1]]
        found: np.ndarray = np.searchsorted(begins, self.windows[:, 0], side="right") - 1
        return found

    def thin(self, most: int) -> "MaskedText":
        """Return at most `most` windows, spread evenly; each is masked as before."""
        if len(self) <= most:
            return self
        kept = np.arange(most) * len(self) // most
        return replace(self, windows=self.windows[kept], numbers=self.numbers[kept])

    def batch(
        self, rows: Sequence[int], rule: MaskingConfig = RULE, key: Sequence[int] = (SEED,)
    ) -> tuple[WindowBatch, Masked]:
        """Return some windows, and the same with their pieces masked.

        `key` and the number of a window seed its masking.
        """
        chosen = [
            Window((first, middle), (second, end), answer)
            for first, middle, second, end, answer in self.windows[rows].tolist()
        ]
        batch = build_batch(self.encoded, chosen, self.pieces)
        ids, positions, targets = batch.ids.copy(), [], []
        for row, number in enumerate(rows):
            found = mask_pieces(
                batch.ids[row : row + 1],
                batch.words[row : row + 1],
                rule,
                mask=self.pieces.mask,
                ordinary=self.pieces.ordinary,
                # for each window, so that the others of its batch change nothing
                generator=np.random.default_rng([*key, int(self.numbers[number])]),
            )
            ids[row] = found.ids[0]
            positions.append(found.positions + row * batch.ids.shape[1])
            targets.append(found.targets)
        return batch, Masked(ids, np.concatenate(positions), np.concatenate(targets))


def cut_text(
    name: str,
    encoded: EncodedDocuments,
    pieces: PieceSet,
    *,
    length: int,
    seed: Sequence[int] = (SEED,),
    pairs: Pairs | None = None,
    short_prob: float = 0.0,
) -> MaskedText:
    """Cut encoded documents into windows to train on.

    Args:
        length: most pieces of a window.
        seed: draws what is random of the windows.
        pairs: what is predicted of two segments; None: a window is one segment.
        short_prob: probability of a window of a random shorter length.

    Raises:
        DataError: the documents are too short for a window.
    """
    generator = np.random.default_rng(seed)
    if pairs is None:
        windows = cut_windows(encoded, length, generator, short_prob=short_prob)
    else:
        windows = pair_windows(encoded, length, generator, short_prob=short_prob, pairs=pairs)
    flat = chain.from_iterable((*item.first, *item.second, item.answer) for item in windows)
    found = np.fromiter(flat, np.int64).reshape(-1, 5)
    if not len(found):
        raise DataError(
            f"{name}: found no window of {length} pieces in any document, expected at least one; "
            "the documents are too short."
        )
    return MaskedText(name, encoded, found, np.arange(len(found)), pieces)


def mask_text(
    name: str, documents: Iterable[Sequence[str]], pieces: PieceSet, *, length: int
) -> MaskedText:
    """Cut documents, each a list of paragraphs, into windows that are measured.

    Args:
        length: the most pieces that the encoder reads; above LENGTH it makes no difference.

    Raises:
        DataError: there is no text.
    """
    encoded = encode_documents(documents, pieces)
    if (encoded.words == FIXED).all():
        raise DataError(
            f"{name}: found nothing to measure, expected text with pieces that the tokenizer knows."
        )
    return cut_text(name, encoded, pieces, length=min(length, LENGTH))


def read_running_text(folder: Path, unknown: str) -> Iterator[Sequence[str]]:
    """Yield the documents of a processed task of running text, those of the split it reports.

    A document begins at each heading of an article, as WikiText marks them. The signs that WikiText
    puts around hyphens and points in numbers are taken out; a word that it left out becomes the
    piece `unknown`, which is never masked.

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
    table = pq.read_table(name_local(folder / f"{task.report_split}.parquet"), columns=["text"])
    document: list[str] = []
    for text in table.column("text").to_pylist():
        if TITLE.match(text) and document:
            yield document
            document = []
        plain = re.sub(r" @([-,.])@ ", r"\1", text).replace(UNKNOWN_WORD, unknown)
        document.append(plain.strip())
    if document:
        yield document
