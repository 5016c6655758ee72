"""Vectors of queries and passages, by the two towers of a trained model or by a bare encoder."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any  # any value of a model file

import numpy as np

from nlp_core.config.model import parse_model
from nlp_core.data.pieces import PieceVocabulary
from nlp_core.data.split_column import RawText, TextColumn
from nlp_core.data.task import Split
from nlp_core.data.tokenization import TOKENIZERS
from nlp_core.encoders.folder import LONGEST, read_size
from nlp_core.errors import ConfigError
from nlp_core.files import digest_file
from nlp_core.kinds import LABEL, RETRIEVAL, Kind
from nlp_core.models.features import Featurizer
from nlp_core.models.graph import GraphModel, build_model
from nlp_core.models.plan import plan_model
from nlp_core.models.saving import WEIGHTS
from nlp_core.prediction.search import Vectors, embed_rows, find_towers
from nlp_core.prediction.trained_model import TrainedModel


def build_on_encoder(
    folder: Path,
    kind: Kind,
    inputs: Sequence[str],
    layers: Sequence[Mapping[str, Any]],
    heads: Mapping[str, Any],
) -> tuple[GraphModel, Featurizer]:
    """Return a model of a bare encoder and layers that have no weights of their own.

    Args:
        inputs: columns of whole texts; the layer `encoder` reads the first one.
        layers: those above the encoder, as in a model file.
    """
    size = read_size(folder)
    encoder = {
        "name": "encoder",
        "block": "pretrained_encoder",
        "inputs": [*inputs[:1]],
        "dim": size.dim,
        "max_length": min(size.positions, LONGEST),
    }
    graph = {
        "description": "an encoder",
        "source": str(folder),
        "inputs": {name: name for name in inputs},
        "layers": [encoder, *layers],
        "heads": heads,
    }
    plan = plan_model(parse_model(graph, str(folder)), where=str(folder))
    vocabulary = PieceVocabulary.learn([], plan.layers[0].options, folder)
    featurizer = Featurizer(plan, {"encoder": vocabulary}, {LABEL: ["0", "1"]})
    return build_model(plan, featurizer, kind=kind), featurizer


class Retriever:
    """Embed queries and passages so that their products are similarities.

    Attributes:
        weights: digest of the file of the weights.
        columns: where the training file had the queries and the passages.
    """

    def __init__(
        self, model: GraphModel, featurizer: Featurizer, weights: Path, columns: Sequence[str]
    ) -> None:
        self.weights = digest_file(weights)
        self.columns = columns
        self._model = model.eval()
        self._featurizer = featurizer
        self._towers = find_towers(model)
        self._tokenize = TOKENIZERS.get("spaces")
        self._max_tokens: int | None = None

    @classmethod
    def of_trained(cls, trained: TrainedModel) -> "Retriever":
        """Return the towers of a trained model; another model than one for retrieval is an error.

        Raises:
            ConfigError: the model is not for retrieval.
        """
        if not trained.task.kind.is_searched:
            raise ConfigError(
                f"{trained.folder}: found a model of the kind {trained.task.kind}, expected one of "
                f"the kind {RETRIEVAL}, which `reglue new retrieval` begins, or a pretrained "
                "encoder."
            )
        columns = RETRIEVAL.texts if trained.data is None else trained.data.texts
        found = cls(trained.model, trained.featurizer, trained.folder / WEIGHTS, columns)
        found._tokenize = TOKENIZERS.get(trained.tokenizer)
        found._max_tokens = trained.max_tokens
        return found

    @classmethod
    def of_encoder(cls, folder: Path) -> "Retriever":
        """Return a pretrained encoder as both towers: means of its pieces, compared by cosine."""
        layers = [
            {"name": "encoder_b", "block": "encoder", "inputs": ["text_b"]},
            {"name": "query", "block": "pooling", "inputs": ["encoder"], "pool": "mean"},
            {"name": "passage", "block": "pooling", "inputs": ["encoder_b"], "pool": "mean"},
        ]
        heads = {"found": {"head": "retrieval", "inputs": ["query", "passage"]}}
        built, featurizer = build_on_encoder(folder, RETRIEVAL, RETRIEVAL.texts, layers, heads)
        return cls(built, featurizer, folder / WEIGHTS, RETRIEVAL.texts)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Return float32 [N, D]."""
        return self._embed(texts, self._towers.query)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Return float32 [N, D]."""
        return self._embed(texts, self._towers.passage)

    def _embed(self, texts: Sequence[str], layer: str) -> Vectors:
        part = self._featurizer.plan.cut_below([layer])
        featurizer = Featurizer(part, self._featurizer.vocabularies, {})
        tokens = [self._tokenize(text)[: self._max_tokens] for text in texts]
        column, rows = TextColumn.join(tokens), len(texts)
        # a tower reads only one of the two texts
        both = {"tokens_a": column, "tokens_b": column}
        split = Split("input", np.arange(rows), both, {}, None, raw=RawText(texts, texts))
        return embed_rows(self._model, featurizer.encode(split), layer, np.arange(rows))
