"""A corpus as a task: its masked pieces are predicted."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nlp_core.config.base import read_mapping
from nlp_core.data.corpus import CORPUS, HELD_OUT, Corpus, read_corpus
from nlp_core.data.split_column import RawText
from nlp_core.data.task import Split, Task, list_footnotes, read_task
from nlp_core.files import MANIFEST
from nlp_core.kinds import MASKED, MASKED_LANGUAGE_MODEL

METRICS = ["perplexity", "accuracy"]


@dataclass(frozen=True)
class DocumentSplit(Split):
    """Documents that an encoder's tokenizer has yet to cut into windows, which are the examples.

    Attributes:
        corpus: where the documents are.
    """

    corpus: Corpus | None = None


@dataclass(frozen=True)
class CorpusTask(Task):
    """A processed corpus, whose training part trains and whose held-out part measures."""

    def read_split(self, name: str) -> DocumentSplit:
        """Open one part."""
        corpus, no_texts = read_corpus(self.folder), RawText([], None)
        targets: dict[str, list[object]] = {MASKED: []}
        return DocumentSplit(name, np.arange(0), {}, targets, None, raw=no_texts, corpus=corpus)


def read_corpus_task(folder: Path) -> CorpusTask:
    """Read the manifest of a processed corpus.

    Raises:
        DataError: it is not processed.
        ConfigError: it holds something else than documents.
    """
    corpus = read_corpus(folder)
    return CorpusTask(
        name=str(corpus.manifest["task"]),
        kind=MASKED_LANGUAGE_MODEL,
        targets={MASKED: []},
        metrics=METRICS,
        select_split=HELD_OUT,
        report_split=HELD_OUT,
        scheme=None,
        footnotes=list_footnotes(read_mapping(folder / MANIFEST).get("source", {})),
        digest=corpus.digest,
        folder=folder,
    )


def read_any_task(folder: Path) -> Task:
    """Read the manifest of a processed task, which may be a corpus.

    Raises:
        DataError: it has not been processed, or is neither.
    """
    path = folder / MANIFEST
    if not path.exists() or read_mapping(path)["kind"] != CORPUS:
        return read_task(folder)
    return read_corpus_task(folder)
