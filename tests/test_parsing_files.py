"""Trees from a user's file to predictions, and every tree's way through its symbols and actions."""

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nlp_core.blocks.option import check_options
from nlp_core.cli import main
from nlp_core.cli.template import build_template
from nlp_core.config.user_data import DataConfig
from nlp_core.data.user_file import read_user_file
from nlp_core.errors import ConfigError
from nlp_core.export.manifest import REFUSED
from nlp_core.heads import HEADS
from nlp_core.heads.grammar import Grammar, trace
from nlp_core.heads.parsing import RNNGHead, SequenceParsingHead, TreeWriter
from nlp_core.models.ensemble import MemberModel, join_members
from nlp_core.prediction.split_prediction import predict
from nlp_core.prediction.trained_model import TrainedModel
from reglue_runtime.tree import (
    OPEN,
    REDUCE,
    SHIFT,
    is_tree,
    list_constituents,
    list_leaves,
    read_token,
    write_token,
    write_tree,
)
from tests.user_commands import fail, learn
from tests.user_files import QUICK, read_rows

LABELS = ["IN:A", "IN:B", "SL:C"]
TINY = [*QUICK, "--set", "heads.tree.hidden_dim=16", "--set", "heads.tree.dropout=0.0"]
token = st.sampled_from(["a", "b", "[", "]", "\\", "[x", "]]", "\\]"])
tree = st.recursive(
    token,
    lambda inner: st.tuples(st.integers(0, 2), st.lists(inner, min_size=1, max_size=3)),
    max_leaves=8,
)
Tree = str | tuple[int, list["Tree"]]


def act(node: Tree) -> tuple[list[int], list[str]]:
    """Return the actions that write a tree, and its tokens."""
    if isinstance(node, str):
        return [SHIFT], [node]
    parts = [act(part) for part in node[1]]
    actions = [OPEN + node[0], *(action for part, _ in parts for action in part), REDUCE]
    return actions, [word for _, words in parts for word in words]


def test_a_sentence_with_a_tree_is_not_cut() -> None:
    data = {"kind": "parsing", "format": "tsv", "texts": ["tokens"], "label": "tree"}
    with pytest.raises(ValueError, match="max_tokens: found with a tree"):
        DataConfig.model_validate({**data, "max_tokens": 5})


@given(tree)
def test_a_tree_comes_back_from_its_symbols(node: Tree) -> None:
    actions, words = act((0, [node]))
    symbols = write_tree(actions, LABELS, words)
    assert list_leaves(symbols) == words
    assert is_tree(symbols, words)
    assert len(list_constituents(symbols)) == actions.count(REDUCE)
    assert all(read_token(write_token(word)) == word for word in words)
    grammar = Grammar(len(LABELS), max_open=20, constraint="grammar")
    grammar.learn(trace(torch.tensor([actions])).edges)
    assert grammar.seen.any(1).sum() <= len(LABELS) + 1


@pytest.mark.parametrize("kind", [RNNGHead, SequenceParsingHead])
def test_a_beam_of_one_is_the_greedy_choice(kind: type[RNNGHead | SequenceParsingHead]) -> None:
    torch.manual_seed(2)
    head = kind(4, 3, hidden_dim=5).eval()
    x, mask = torch.randn(1, 5, 4), torch.ones(1, 5, dtype=torch.bool)
    (found,) = head.decode(head(x, mask), mask).prediction.tolist()
    with torch.no_grad():
        (expert,) = head.experts
        scorer = head.start(expert, x, mask, len(found))
        written: list[int] = []
        writer = TreeWriter([scorer], head.grammar, torch.tensor([5]))
        while not bool(writer.done[0]):
            choice = writer.score().argmax(1)
            writer.advance(torch.tensor([0]), choice)
            written += choice.tolist()
    assert [action for action in found if action >= 0] == written


def test_only_the_decoder_may_write_what_is_no_tree() -> None:
    check_options(HEADS.get("seq2seq_parsing"), {"constraints": "none"}, where="here")
    with pytest.raises(ConfigError, match="constraints"):
        check_options(HEADS.get("rnng"), {"constraints": "none"}, where="here")


def write_trees(path: Path) -> Path:
    """Write words and the tree of each of a few requests, some with a request inside a slot."""
    rows = []
    for city in ["Rome", "Oslo", "Bonn", "Kyiv"] * 6:
        rows.append(f"fly to {city}\t[IN:FLY fly to [SL:GOAL {city} ] ]\n")
        home = "[SL:GOAL [IN:HOME my [SL:WHO aunt ] ] ]"
        rows.append(f"go to my aunt in {city}\t[IN:GO go to {home} in [SL:PLACE {city} ] ]\n")
    path.write_text("".join(rows), encoding="utf-8")
    return path


@pytest.mark.slow
def test_trees_of_a_file_are_learnt(place: Path) -> None:
    metrics = learn("parsing", write_trees(place / "a.tsv"), *TINY, "--epochs", "12")
    assert metrics["exact_match"] > 90
    assert metrics["validity"] == 100
    section = json.loads((place / "m.json").read_text())["data"]
    assert (section["texts"], section["label"]) == (["1"], "2")
    line = (place / "p.tsv").read_text().splitlines()[0].split("\t")
    assert line[1] == line[2] == "[IN:FLY fly to [SL:GOAL Rome ] ]"
    assert 0.5 < float(line[3]) <= 1
    assert read_rows(place / "p.tsv")


@pytest.mark.parametrize("kind", [RNNGHead, SequenceParsingHead])
def test_joined_heads_are_one_head_with_their_experts(
    kind: type[RNNGHead | SequenceParsingHead],
) -> None:
    torch.manual_seed(3)
    first, second = (kind(4, 3, hidden_dim=5, beam=2).eval() for _ in range(2))
    whole = kind(8, 3, hidden_dim=5, beam=2, experts=2).eval()
    for expert, head in zip(whole.experts, (first, second), strict=True):
        expert.load_state_dict(head.experts[0].state_dict())
    first.grammar.learn([(-1, 0), (0, 1)])
    second.grammar.learn([(-1, 0), (0, 2)])
    whole.grammar.learn([(-1, 0), (0, 1), (0, 2)])
    x, mask = torch.randn(3, 6, 8), torch.arange(6) < torch.tensor([[6], [2], [4]])
    assert torch.equal(first.join([second])(x, mask), whole(x, mask))
    assert len(first.experts) == 1
    assert not first.grammar.seen[0, 2]


@pytest.mark.slow
def test_parsers_write_together(place: Path) -> None:
    learn("parsing", write_trees(place / "a.tsv"), *TINY, "--epochs", "4")
    trained = TrainedModel.open(Path("out"))
    member = MemberModel("out", trained.model, trained.featurizer)
    whole, featurizer = join_members([member] * 2, "logits", where="here")
    assert trained.data is not None
    rows = read_user_file(Path("a.tsv"), trained.data, "dev")
    alone, together = (
        predict(model, own.encode(rows), trained.task.targets)
        for model, own in ((trained.model, trained.featurizer), (whole, featurizer))
    )
    assert together.answers == alone.answers
    assert alone.score is not None
    assert together.score is not None
    assert (together.score > alone.score).all()  # the product is renormalised at each step
    with pytest.raises(ConfigError, match="expected 'logits', the product"):
        join_members([member] * 2, "probabilities", where="here")


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        ("fly home\t[IN:FLY fly home", "line 49: '2': found no ']' for '[IN:FLY'"),
        ("fly home\t[IN:FLY fly away ]", "line 49: found the tokens 'fly home' and in '2'"),
        ("fly home\t[IN:FLY fly [SL:GOAL ] home ]", "'[SL:GOAL' without a token"),
    ],
)
def test_what_is_no_tree_in_a_file_is_one_paragraph(
    place: Path, capsys: pytest.CaptureFixture[str], row: str, wanted: str
) -> None:
    path = write_trees(place / "a.tsv")
    main(["new", "parsing", "--train", "a.tsv", "-o", "m.json"])
    path.write_text(f"{path.read_text()}{row}\n")
    assert wanted in fail(capsys, "train", "m.json", "--train", "a.tsv", "-o", "out")
    assert not (place / "out").exists()


def test_a_new_model_file_describes_its_head() -> None:
    ends = {"parsing": "a parser by shift and reduce", "generation": "a decoder that copies words"}
    for name, end in (ends | {"tagging": "a CRF"}).items():
        assert build_template(name, {}, rows=10)["description"].endswith(f"a BiLSTM, {end}")


def test_a_parser_in_parallel_is_not_refused_for_its_steps() -> None:
    assert "step by step" in REFUSED["RNNGHead"]
    assert "step by step" not in REFUSED["NonautoregressiveParsingHead"]
