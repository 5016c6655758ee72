"""Read the documents of spaCy: a .spacy file, which DocBin wrote."""

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nlp_core.errors import DataError

SUFFIX = ".spacy"
LEAST_SCORE = 0.5
"""Of a category, to be a label of its document."""


def read_docs(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:  # Any: cells
    """Yield number, from 1, and cells of each document.

    They are `text`, `entities` where a document has some, and where one has categories `labels`,
    and `label` if each has one.

    Raises:
        DataError: spaCy is not installed, or the file is damaged.
    """
    docs = _read_file(path)
    has_entities = any(doc.ents for doc in docs)
    labels = [[name for name, score in doc.cats.items() if score >= LEAST_SCORE] for doc in docs]
    has_one = all(len(names) == 1 for names in labels)
    for number, (doc, names) in enumerate(zip(docs, labels, strict=True), 1):
        cells: dict[str, Any] = {"text": doc.text}
        if has_entities:
            cells["entities"] = [[span.start_char, span.end_char, span.label_] for span in doc.ents]
        if has_one:
            cells["label"] = names[0]
        if any(labels):
            cells["labels"] = names
        yield number, cells


def _read_file(path: Path) -> list[Any]:  # Any: spaCy is not always installed
    try:
        import spacy  # seconds, and only these files need it
        from spacy.tokens import DocBin
    except ModuleNotFoundError as err:
        raise DataError(
            f"{path}: found documents of spaCy, which is not installed; run `pip install "
            "'reglue[spacy]'`."
        ) from err
    try:
        return list(DocBin().from_disk(path).get_docs(spacy.blank("xx").vocab))
    except (zlib.error, ValueError, TypeError, LookupError, OSError) as err:
        reason = " ".join(str(err).split())
        raise DataError(f"{path}: not a readable DocBin ({reason}). Write it again.") from err
