"""The towers of a model as they search: splits, their collections, and ranks by brute force."""

from pathlib import Path

import numpy as np
import pytest
import torch

from nlp_core.config.model import parse_model
from nlp_core.data.split_column import LabelColumn, TextColumn
from nlp_core.data.task import Split
from nlp_core.data.vocabulary import WordVocabulary
from nlp_core.errors import ConfigError
from nlp_core.kinds import RETRIEVAL
from nlp_core.models.features import Featurizer
from nlp_core.models.graph import GraphModel, build_model
from nlp_core.models.plan import plan_model
from nlp_core.models.retrieval_split import RetrievalSplit, encode_retrieval
from nlp_core.prediction.search import find_towers, rank_passages
from nlp_core.prediction.split_prediction import predict
from nlp_core.training.task_run import refuse_parts

TARGETS = {"label": ["0", "1"]}
MODEL = {
    "description": "x",
    "source": "x",
    "inputs": {"a": "tokens_a", "b": "tokens_b"},
    "layers": [
        {"name": "word", "block": "word_embedding", "inputs": ["a"], "dim": 6},
        {"name": "word_b", "block": "word", "inputs": ["b"]},
        {"name": "query", "block": "pooling", "inputs": ["word"], "pool": "mean"},
        {"name": "passage", "block": "pooling", "inputs": ["word_b"], "pool": "mean"},
    ],
    "heads": {"found": {"head": "retrieval", "inputs": ["query", "passage"]}},
}
QUERIES = ["a b", "a b", "c", "d a", "d a"]
PASSAGES = ["a b c", "d", "c c", "d", "a a d"]
LABELS = ["1", "0", "1", "1", "1"]


def build_column(texts: list[str]) -> TextColumn:
    return TextColumn.join([text.split() for text in texts])


def make_split(name: str, rows: list[int]) -> Split:
    group = np.array([[0, 0, 1, 2, 2][row] for row in rows])
    return Split(
        name,
        np.arange(len(rows)),
        {
            "tokens_a": build_column([QUERIES[row] for row in rows]),
            "tokens_b": build_column([PASSAGES[row] for row in rows]),
        },
        {"label": LabelColumn.build("label", [LABELS[row] for row in rows])},
        group,
    )


@pytest.fixture
def built() -> tuple[GraphModel, Featurizer]:
    plan = plan_model(parse_model(MODEL, "here"), where="here")
    columns = [build_column(QUERIES), build_column(PASSAGES)]
    words = WordVocabulary.learn(columns, plan.layers[0].options, Path())
    featurizer = Featurizer(plan, {"word": words}, TARGETS)
    torch.manual_seed(3)
    return build_model(plan, featurizer, kind=RETRIEVAL), featurizer


def encode(built: tuple[GraphModel, Featurizer], *, shared: bool) -> dict[str, RetrievalSplit]:
    splits = {"train": make_split("train", [0, 1, 2]), "dev": make_split("dev", [3, 4])}
    return encode_retrieval(built[1], splits, shared=shared)


def test_passages_are_numbered_once(built: tuple[GraphModel, Featurizer]) -> None:
    found = encode(built, shared=True)
    assert found["train"].passage.tolist() == [0, 1, 2]
    assert found["dev"].passage.tolist() == [1, 3]
    assert found["train"].collection is found["dev"].collection
    own = encode(built, shared=False)["dev"]
    assert own.passage.tolist() == [0, 1]
    assert [len(part.split) for part in own.collection.parts] == [2]


def test_a_batch_has_the_numbers_of_queries_and_passages(
    built: tuple[GraphModel, Featurizer],
) -> None:
    group = encode(built, shared=True)["dev"].batch(np.array([1, 0])).group
    assert group is not None
    assert group.tolist() == [[2, 3], [2, 1]]


@torch.no_grad()
def test_ranks_are_those_of_brute_force(built: tuple[GraphModel, Featurizer]) -> None:
    model, featurizer = built
    dev = encode(built, shared=True)["dev"]
    whole = featurizer.encode(make_split("all", [0, 1, 2, 4, 3]))
    values, _ = model.compute_layers(whole.batch(np.arange(5)))
    scores = find_towers(model).head(values["query"], values["passage"])
    places = {1: 1, 3: 3}  # the passages of rows 0, 1, 2 and 4 are those of the collection
    expected = []
    for passage in dev.passage.tolist():
        own = scores[3, :4]
        expected.append(int((own >= own[places[passage]]).sum()))
    assert rank_passages(model, dev) == expected
    assert predict(model, dev, TARGETS).prediction == expected


def test_other_weights_give_other_vectors(built: tuple[GraphModel, Featurizer]) -> None:
    model, _ = built
    dev = encode(built, shared=True)["dev"]
    rank_passages(model, dev)
    before = dict(dev.collection.vectors)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.neg_().add_(1.0)
    rank_passages(model, dev)
    assert len(dev.ranks) == len(dev.collection.vectors) == 1
    assert before.keys() != dev.collection.vectors.keys()


def test_a_batch_cannot_be_computed_in_parts(built: tuple[GraphModel, Featurizer]) -> None:
    with pytest.raises(ConfigError, match="found a batch in parts"):
        refuse_parts(built[0])
