"""A corpus as a task beside others: its hidden pieces are to be told."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nlp_core.config.base import read_mapping
from nlp_core.data.corpus import CORPUS, HELD_OUT, TRAIN, Corpus, read_corpus
from nlp_core.data.masked_text import read_held_out
from nlp_core.data.source import MANIFEST
from nlp_core.data.split_column import RawText
from nlp_core.data.task import Split, Task, list_footnotes, read_task
from nlp_core.kinds import MASKED, MASKED_LANGUAGE_MODEL

METRICS = ["perplexity", "accuracy"]


@dataclass(frozen=True)
class DocumentSplit(Split):
    """Documents that an encoder's tokenizer has yet to cut into windows, which are the examples.

    Attributes:
        documents: the paragraphs of each.
    """

    documents: Sequence[Sequence[str]] = ()


@dataclass(frozen=True)
class CorpusTask(Task):
    """A processed corpus, whose training part trains and whose held-out part measures."""

    def read_split(self, name: str) -> DocumentSplit:
        """Read the documents of one part; of a large held-out part the first shards."""
        corpus = read_corpus(self.folder)
        documents = _read_train(corpus) if name == TRAIN else read_held_out(corpus)
        no_texts = RawText([], None)
        targets: dict[str, list[object]] = {MASKED: []}
        return DocumentSplit(
            name, np.arange(0), {}, targets, None, raw=no_texts, documents=list(documents)
        )


def read_any_task(folder: Path) -> Task:
    """Read the manifest of a processed task, which may be a corpus.

    Raises:
        DataError: it has not been processed, or is neither.
    """
    path = folder / MANIFEST
    if not path.exists() or read_mapping(path)["kind"] != CORPUS:
        return read_task(folder)
    corpus = read_corpus(folder)
    return CorpusTask(
        name=read_mapping(path)["task"],
        kind=MASKED_LANGUAGE_MODEL,
        targets={MASKED: []},
        metrics=METRICS,
        select_split=HELD_OUT,
        report_split=HELD_OUT,
        scheme=None,
        footnotes=list_footnotes(read_mapping(path).get("source", {})),
        digest=corpus.digest,
        folder=folder,
    )


def _read_train(corpus: Corpus) -> Iterator[Sequence[str]]:
    for shard in range(corpus.count_shards(TRAIN)):
        for document in corpus.read_shard(TRAIN, shard):
            yield document.paragraphs
