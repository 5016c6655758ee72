"""Vectors of queries and passages, by a bundle of vectors."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nlp_core.errors import ConfigError, DataError, UsageError
from nlp_core.heads.retrieval import COSINE, EMBEDDING
from nlp_core.kinds import RETRIEVAL
from nlp_core.prediction.search import Vectors
from reglue_runtime import BundleError, load

SHORTEST = np.float32(1e-12)  # as torch's normalize
QUERY, PASSAGE = RETRIEVAL.texts


class BundleRetriever:
    """Embed queries and passages with a bundle of vectors.

    Attributes:
        is_of_passages: whether it reads no queries.

    Two bundles of one model's two towers have the same `weights`, so one can search what the other
    has indexed.

    Raises:
        ConfigError: the bundle gives no vectors.
        DataError: the folder holds no whole bundle.
    """

    columns: Sequence[str] = RETRIEVAL.texts

    def __init__(self, folder: Path) -> None:
        try:
            self._bundle = load(folder)
        except BundleError as err:
            raise DataError(str(err)) from err
        self._folder = folder
        head = self._bundle.manifest.heads[0]
        if "weights" not in head:
            raise ConfigError(
                f"{folder}: found a bundle of the kind {self._bundle.kind}, expected one of "
                "vectors, which `reglue export --layer` writes."
            )
        self.is_of_passages = self._bundle.manifest.texts == [PASSAGE]
        self.weights = str(head["weights"])
        self._is_cosine = head["similarity"] == COSINE

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of queries; a bundle of the passages' tower is a UsageError."""
        self._refuse(PASSAGE, "passages", "queries")
        return self._embed(texts)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of passages; a bundle of the queries' tower is a UsageError."""
        self._refuse(QUERY, "queries", "passages")
        return self._embed(texts)

    def _refuse(self, text: str, found: str, expected: str) -> None:
        if self._bundle.manifest.texts == [text]:
            raise UsageError(
                f"{self._folder}: found the bundle of {found}, expected that of {expected}; an "
                "index is built with one and searched with the other."
            )

    def _embed(self, texts: Sequence[str]) -> Vectors:
        try:
            found = self._bundle.predict(texts)
        except BundleError as err:
            raise ConfigError(str(err)) from err
        vectors: Vectors = np.array([item[EMBEDDING] for item in found], dtype=np.float32)
        if not self._is_cosine:
            return vectors
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit: Vectors = (vectors / np.maximum(lengths, SHORTEST)).astype(np.float32)
        return unit
