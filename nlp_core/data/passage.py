"""The passages of a split whose answers are spans of them."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from nlp_core.data.stored_column import view_numbers

NO_ANSWER = -1
"""First and last token of a question that its passage does not answer."""


@dataclass(frozen=True)
class Passages:
    """Passages with the offsets of their tokens.

    Attributes:
        texts: the passage of each example, [N].
        offsets: where each example begins in `starts` and `ends`, and the end, [N + 1].
        starts: offset of each token's first character, flat.
        ends: offset after each token's last character, flat.
        positions: first and last token of each answer, [N, 2], -1 without an answer; None if an
            answer is unknown or not found.
    """

    texts: pa.Array
    offsets: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    positions: np.ndarray | None

    @classmethod
    def read(cls, table: pa.Table) -> "Passages":
        """Read the columns of a processed split, as `write_questions` writes them."""
        starts = table.column("starts_b").combine_chunks()
        offsets = view_numbers(starts.offsets)
        return cls(
            texts=table.column("text_b").combine_chunks(),
            offsets=offsets - offsets[0],
            starts=view_numbers(starts.flatten()),
            ends=view_numbers(table.column("ends_b").combine_chunks().flatten()),
            positions=_read_positions(table),
        )

    def cut(self, row: int, first: int, last: int) -> str:
        """Return the text from one token to another of an example; empty for NO_ANSWER."""
        if first == NO_ANSWER:
            return ""
        begin, end = self.offsets[row], self.offsets[row + 1]
        assert 0 <= first <= last < end - begin, (row, first, last)
        text: str = self.texts[row].as_py()
        return text[self.starts[begin + first] : self.ends[begin + last]]


def _read_positions(table: pa.Table) -> np.ndarray | None:
    columns = [table.column(name).to_pylist() for name in ("first", "last")]
    answerable = table.column("answerable").to_pylist()
    rows = []
    for first, last, has_answer in zip(*columns, answerable, strict=True):
        if has_answer is None or (has_answer and last is None):
            return None
        rows.append((first, last) if has_answer else (NO_ANSWER, NO_ANSWER))
    return np.array(rows, dtype=np.int64).reshape(-1, 2)
