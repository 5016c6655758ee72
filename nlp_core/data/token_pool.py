"""Tokenize the texts of a split in several processes; their number changes no token."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import chain
from multiprocessing import get_context

from nlp_core.data.readers.example import Example, Question, Rows
from nlp_core.data.tokenization import TOKENIZERS, Tokenizer

TEXTS_A_CHUNK = 2048


def prepare_tokenizer(name: str, rows: Rows, processes: int) -> Tokenizer:
    """Return a tokenizer that has already tokenized every text of some rows.

    Args:
        processes: with 1 it tokenizes a text when it is asked for.
    """
    tokenize = TOKENIZERS.get(name)
    texts = sorted(set(_list_texts(rows))) if processes > 1 else []
    if len(texts) <= TEXTS_A_CHUNK:
        return tokenize
    chunks = [texts[at : at + TEXTS_A_CHUNK] for at in range(0, len(texts), TEXTS_A_CHUNK)]
    # started afresh: a fork would copy the threads of libraries half-way
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        found = pool.map(partial(tokenize_all, name), chunks)
        known = dict(zip(texts, chain.from_iterable(found), strict=True))
    return lambda text: known[text]


def tokenize_all(name: str, texts: Sequence[str]) -> list[list[str]]:
    return [*map(TOKENIZERS.get(name), texts)]


def _list_texts(rows: Rows) -> Iterable[str]:
    for row in rows:
        if isinstance(row, Example):
            yield row.text_a
            yield row.text_b or ""
            yield row.output or ""
        elif isinstance(row, Question):
            yield row.text
