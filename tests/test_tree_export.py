"""A bundle of a parser that writes symbol by symbol answers the trees of the trained model."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from nlp_core.cli import main
from nlp_core.export.written import describe_writer
from nlp_core.heads.parsing import SequenceParsingHead
from nlp_core.prediction.predictor import Predictor
from nlp_core.prediction.trained_model import TrainedModel
from reglue_runtime import load
from reglue_runtime.tree import Derivation, TreeMoves
from reglue_runtime.tree_writing import TreeRules
from reglue_runtime.writing import RuntimeWriter
from tests.test_parsing_files import TINY, write_trees

LENGTHS = [6, 1, 4]


@pytest.mark.parametrize("constraints", ["grammar", "brackets", "none"])
@pytest.mark.parametrize("options", [{}, {"beam": 3}, {"beam": 2, "experts": 2}], ids=str)
def test_the_runtime_writes_the_trees_of_the_head(
    tmp_path: Path, options: dict[str, int], constraints: str
) -> None:
    torch.manual_seed(4)
    head = SequenceParsingHead(
        4, 3, hidden_dim=5, symbol_dim=3, max_open=3, constraints=constraints, **options
    ).eval()
    head.grammar.learn([(-1, 0), (0, 1), (1, 2), (0, 2)])
    with torch.no_grad():
        for weight in head.parameters():
            weight.mul_(3)
    mask = torch.arange(6) < torch.tensor(LENGTHS).unsqueeze(1)
    x = torch.randn(3, 6, 4).masked_fill(~mask.unsqueeze(-1), 0.0)
    decoded = head.decode(head(x, mask), mask)
    note = describe_writer(head, [], tmp_path / "tree.npy")
    begin = partial(TreeRules, note=note["rules"])
    writer = RuntimeWriter.read(note, tmp_path / note["file"], begin)
    found = writer.write(x.numpy(), [range(5, 5 + size) for size in LENGTHS])
    pairs = zip(found.choices.tolist(), decoded.prediction.tolist(), strict=True)
    for own, expected in pairs:
        assert [item for item in own if item >= 0] == [item for item in expected if item >= 0]
    assert decoded.probability is not None
    np.testing.assert_allclose(np.exp(found.log_prob), decoded.probability[:, 0], rtol=1e-4)


def test_moves_of_a_tree_by_hand() -> None:
    tree = Derivation()
    assert tree.list_moves(2, 2) == TreeMoves(shifts=False, closes=False, parent=-1)
    tree = tree.follow(2)  # opens the label 0, which has nothing in it yet
    assert tree.list_moves(2, 2) == TreeMoves(shifts=True, closes=False, parent=0)
    tree = tree.follow(3).follow(0)  # the label 1 with the first of two tokens; two are open
    assert tree.list_moves(2, 2) == TreeMoves(shifts=True, closes=True, parent=None)
    tree = tree.follow(1)  # the root cannot close before the last token
    assert tree.list_moves(2, 2) == TreeMoves(shifts=True, closes=False, parent=0)
    tree = tree.follow(0).follow(1)
    assert tree.is_done
    assert tree.list_moves(2, 2) == TreeMoves(shifts=False, closes=False, parent=None)


@pytest.mark.slow
def test_a_bundle_of_a_parser_answers_its_trees(place: Path) -> None:
    write_trees(place / "a.tsv")
    main(["new", "parsing", "--train", "a.tsv", "-o", "new.json"])
    head = '{"head": "seq2seq_parsing", "inputs": ["out"], "symbol_dim": 8, "beam": 2}'
    main(
        [
            "train",
            "new.json",
            "--train",
            "a.tsv",
            "-o",
            "out",
            *TINY,
            "--epochs",
            "8",
            "--set",
            f"heads.tree={head}",
        ]
    )
    main(["export", "out", "--to", "bundle", "--data", "a.tsv"])
    texts = ["fly to Rome", "go to my aunt in Lima"]
    found = load(place / "bundle").predict(texts)
    asked = Predictor(TrainedModel.open(place / "out")).predict(texts)
    assert [item["tree"] for item in found] == [item.prediction for item in asked]
    assert found[0]["confidence"] == pytest.approx(asked[0].confidence, abs=1e-4)
