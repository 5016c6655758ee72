"""Trees of intents and slots: their symbols, grammar, metrics, search and training."""

import numpy as np
import pytest
import torch
from torch import Tensor

from nlp_core.config.model import parse_model
from nlp_core.data.split_column import LabelColumn
from nlp_core.errors import ConfigError
from nlp_core.heads.grammar import Grammar, trace
from nlp_core.heads.parsing import RNNGHead, SequenceParsingHead
from nlp_core.heads.pointer import PointerDecoder
from nlp_core.heads.rnng import TreeNetwork
from nlp_core.heads.search import search
from nlp_core.metrics import Predictions, measure
from nlp_core.models.batch import Batch
from nlp_core.models.graph import GraphModel
from nlp_core.models.plan import plan_model
from reglue_runtime.search import STAY
from reglue_runtime.tree import (
    TreeError,
    is_tree,
    list_constituents,
    list_leaves,
    nest_tags,
    write_tree,
)
from reglue_runtime.tree_writing import TreeRules

TREE = ["[IN:A", "at", "[SL:B", "[IN:C", "my", "house", "]", "]", "now", "]"]
WORDS = ["at", "my", "house", "now"]
LABELS = ["IN:A", "IN:C", "SL:B"]
ACTIONS = [2, 0, 4, 3, 0, 0, 1, 1, 0, 1]


def test_actions_and_symbols_are_the_same_tree() -> None:
    assert write_tree(ACTIONS, LABELS, WORDS) == TREE
    column = LabelColumn.build("tree", [TREE])
    assert column.encode(LABELS).take(np.array([0])).tolist() == [ACTIONS]  # type: ignore[union-attr]
    assert list_leaves(TREE) == WORDS
    assert [item.label for item in list_constituents(TREE)] == ["IN:C", "SL:B", "IN:A"]
    assert is_tree(TREE, WORDS)
    assert not is_tree(TREE, WORDS[:3])


def test_brackets_among_the_tokens_are_no_constituents() -> None:
    tree = write_tree([2, 0, 0, 1], ["IN:A"], ["[x", "]"])
    assert tree == ["[IN:A", "\\[x", "\\]", "]"]
    assert list_leaves(tree) == ["[x", "]"]
    assert is_tree(tree, ["[x", "]"])


@pytest.mark.parametrize(
    ("symbols", "message"),
    [
        ("at [IN:A x ]", "found 'at' at place 1"),
        ("[IN:A x", "found no ']' for '\\[IN:A'"),
        ("[IN:A x ] ]", "after the tree's last bracket"),
        ("[IN:A [SL:B ] x ]", "'\\[SL:B' without a token"),
        ("[ x ]", "without a label"),
        ("[IN:A x ]]", "expected a space"),
        ("", "found no bracket"),
    ],
)
def test_what_is_no_tree_is_named(symbols: str, message: str) -> None:
    with pytest.raises(TreeError, match=message):
        list_constituents(symbols.split())


def test_slots_become_children_of_the_intent() -> None:
    tags = ["O", "B-from", "I-from", "B-to", "B-to"]
    tree = nest_tags("fly", tags, ["from", "new", "york", "paris", "rome"])
    assert " ".join(tree) == ("[IN:fly from [SL:from new york ] [SL:to paris ] [SL:to rome ] ]")


def test_metrics_by_hand() -> None:
    wrong = ["[IN:A", "at", "[IN:C", "my", "house", "]", "now", "]"]
    found = Predictions(LABELS, [TREE, TREE], [TREE, wrong])
    names = ["exact_match", "bracket_precision", "bracket_recall", "bracket_f1", "validity"]
    values = measure("parsing", names, found)
    assert [round(values[name], 2) for name in names] == [50.0, 100.0, 83.33, 90.91, 100.0]
    broken = Predictions(LABELS, [TREE], [TREE[:-1]])
    assert measure("parsing", ["validity", "bracket_f1"], broken) == {
        "validity": 0.0,
        "bracket_f1": 0.0,
    }


def test_grammar_allows_what_training_showed() -> None:
    grammar = Grammar(3, max_open=4, constraint="grammar")
    grammar.learn(trace(torch.tensor([ACTIONS])).edges)
    rules = TreeRules(np.array([4]), note=grammar.describe())
    opened = []
    for action in ACTIONS:
        (allowed,) = rules.allow(5)
        assert allowed[action]
        opened.append(allowed[2:].tolist())
        rules.advance(np.array([0]), np.array([action]))
    assert rules.done.all()
    assert opened[:4] == [
        [True, False, False],
        [False, False, True],
        [False, False, True],
        [False, True, False],
    ]


@pytest.mark.parametrize("composition", ["bilstm", "sum"])
def test_the_search_scores_a_tree_as_training_does(composition: str) -> None:
    torch.manual_seed(1)
    head = RNNGHead(4, 3, hidden_dim=5, composition=composition, constraints="brackets").double()
    check_search(head.eval())


def check_search(head: RNNGHead | SequenceParsingHead) -> None:
    """Score each step of a tree as the search does; it must add up to the score of training."""
    x, mask = torch.randn(1, 4, 4).double(), torch.ones(1, 4, dtype=torch.bool)
    target = torch.tensor([ACTIONS])
    expected = head(x, mask, target)[0, :, 0]
    scorer = head.start(head.experts[0], x, mask, 20)
    found, read = [], torch.tensor([0])
    with torch.no_grad():
        for action in ACTIONS:
            found.append(float(scorer.score(read)[0, action]))
            scorer.advance(torch.tensor([0]), torch.tensor([action]), read)
            read = read + (action == 0)
    torch.testing.assert_close(torch.tensor(found).double(), expected.detach())


def test_the_decoder_scores_a_tree_as_training_does() -> None:
    torch.manual_seed(1)
    check_search(SequenceParsingHead(4, 3, hidden_dim=5, symbol_dim=3).double().eval())


def test_copies_and_symbols_share_one_distribution() -> None:
    torch.manual_seed(1)
    decoder = PointerDecoder(3, 4, hidden_dim=5, symbol_dim=2, dropout=0.0).double()
    x, mask = torch.randn(1, 3, 3).double(), torch.tensor([[True, True, False]])
    sources = torch.tensor([[1, 4, 5]])  # the first token is also the symbol 1
    chances = [
        decoder(x, mask, torch.tensor([[target]]), sources).exp().item() for target in range(6)
    ]
    assert sum(chances) == pytest.approx(1.0)
    assert chances[5] == 0.0


class Coins:
    """Two choices a step; the greedy one is the worse in the end."""

    def __init__(self) -> None:
        self.written: list[list[int]] = [[], []]

    @property
    def done(self) -> Tensor:
        return torch.tensor([len(item) == 2 for item in self.written])

    def score(self) -> Tensor:
        odds = {(): [0.6, 0.4], (0,): [0.5, 0.5], (1,): [0.9, 0.1]}
        rows = [odds.get(tuple(item), [0.5, 0.5]) for item in self.written]
        return torch.tensor(rows).log()

    def advance(self, parent_R: Tensor, choice_R: Tensor) -> None:
        old = self.written
        moves = zip(parent_R.tolist(), choice_R.tolist(), strict=True)
        self.written = [old[row] + ([] if choice == STAY else [choice]) for row, choice in moves]


def test_a_beam_finds_what_greedy_choice_misses() -> None:
    found = search(Coins(), batch=1, beam=2, max_steps=5)
    assert found.choices.tolist() == [[1, 0]]
    assert found.log_prob.exp().item() == pytest.approx(0.36)
    greedy = search(Coins(), batch=2, beam=1, max_steps=5)
    assert greedy.choices.tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("kind", [RNNGHead, SequenceParsingHead])
def test_every_answer_is_a_tree(kind: type[RNNGHead | SequenceParsingHead]) -> None:
    torch.manual_seed(3)
    head = kind(4, 3, hidden_dim=5, beam=3, experts=2).eval()
    lengths = [7, 1, 4]
    mask = torch.arange(7) < torch.tensor(lengths).unsqueeze(1)
    with torch.no_grad():
        for weight in head.parameters():
            weight.mul_(3)
    decoded = head.decode(head(torch.randn(3, 7, 4), mask), mask)
    for row, length in zip(decoded.prediction.tolist(), lengths, strict=True):
        words = [f"w{idx}" for idx in range(length)]
        actions = [action for action in row if action >= 0]
        assert is_tree(write_tree(actions, LABELS, words), words)


def test_widths_are_shared_equally() -> None:
    with pytest.raises(ConfigError, match="found 3 and an input of width 4"):
        RNNGHead(4, 3, experts=3)


def test_a_network_needs_only_the_parts_it_reads() -> None:
    options = {"hidden_dim": 5, "action_dim": 2, "composition": "sum", "dropout": 0.0}
    network = TreeNetwork(4, 3, parts=["buffer"], **options)  # type: ignore[arg-type]
    assert not hasattr(network, "past")


def test_a_process_remembers_the_labels_of_all_parts() -> None:
    graph = {
        "description": "a test",
        "source": "a test",
        "inputs": {"words": "tokens"},
        "layers": [{"name": "word", "block": "word_embedding", "inputs": ["words"], "dim": 4}],
        "heads": {"tree": {"head": "rnng", "inputs": ["word"]}},
    }
    head, mask = RNNGHead(4, 3), torch.ones(1, 1, dtype=torch.bool)
    model = GraphModel(plan_model(parse_model(graph, "here"), where="here"), {}, {"tree": head})
    trees = [torch.tensor([[2, 0, 1]]), torch.tensor([[3, 4, 0, 1, 1]])]
    batches = [Batch({}, {"words": mask}, {"tree": tree}, np.arange(1)) for tree in trees]
    model.eval().share_terms(batches)
    assert not head.grammar.seen.any()
    model.train().share_terms(batches)
    assert head.grammar.seen.nonzero().tolist() == [[1, 2], [3, 0], [3, 1]]
