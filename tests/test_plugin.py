"""Blocks of one's own: loaded, remembered, asked for, refused."""

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from nlp_core.blocks import BLOCKS
from nlp_core.cli import main
from nlp_core.errors import ConfigError
from nlp_core.models.plugin import REGISTRIES, load_plugins
from nlp_core.training.predictor import Predictor
from tests.own_files import SMALL, write_tsv

SCALE = '''
import torch
from torch import nn

from nlp_core.blocks import BLOCKS, SEQUENCE, VECTOR, Block, Shape


@BLOCKS.register("{name}")
class Scale(Block):
    """Multiply by a learnt number: y = a x."""

    ranks = ((VECTOR, SEQUENCE),)

    def __init__(self, dim: int, *, start: float = 1.0) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(start))

    @classmethod
    def infer(cls, *inputs: Shape, **options: object) -> Shape:
        return inputs[0]

    def forward(self, x, mask):
        return self.factor * x
'''
LAYER = '{"name": "scaled", "block": "my_scale", "inputs": ["text"], "start": 0.5}'


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working folder, with its own cache; registries and log handlers are put back."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGLUE_CACHE", str(tmp_path / "cache"))
    names = [registry.names() for registry in REGISTRIES]
    handlers = logging.root.handlers[:]
    yield tmp_path
    logging.root.handlers[:] = handlers
    for registry, known in zip(REGISTRIES, names, strict=True):
        registry.keep_only(known)


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def make_model(place: Path) -> None:
    """Write a model file whose head reads the block of the plug-in."""
    write_tsv(place / "a.tsv", rows=40)
    main(["new", "classification", "--train", "a.tsv", "-o", "m.json"])
    text = (place / "m.json").read_text()
    text = text.replace(
        '"inputs": ["best", "mean"]}\n', f'"inputs": ["best", "mean"]}},\n{LAYER}\n'
    )
    text = text.replace(
        '"classification", "inputs": ["text"]', '"classification", "inputs": ["scaled"]'
    )
    write(place / "m.json", text)


def test_a_block_of_ones_own_trains_and_is_asked_for_at_predict(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_model(place)
    plugin = write(place / "my_block.py", SCALE.format(name="my_scale"))
    train = ["train", "m.json", "--train", "a.tsv", "-o", "out", *SMALL, "--epochs", "1"]
    with pytest.raises(SystemExit):
        main(train)
    assert "unknown block 'my_scale'" in capsys.readouterr().err
    main([*train, "--plugin", "my_block.py"])
    with pytest.raises(ConfigError, match=r"trained with the plug-in my_block.py .* --plugin"):
        Predictor.load("out")
    (prediction,) = Predictor.load("out", [plugin]).predict(["the soup"])
    assert prediction.confidence is not None
    other = write(place / "other.py", SCALE.format(name="other_scale"))
    with pytest.raises(ConfigError, match=r"trained with the plug-in my_block\.py"):
        Predictor.load("out", [other])
    shutil.move(plugin, place / "moved.py")
    main(["test", "out", "--data", "a.tsv", "--plugin", "moved.py"])


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (SCALE.format(name="bilstm"), "block 'bilstm' is registered already"),
        (SCALE.format(name="fresh") + "\nraise ValueError('why')\n", "ValueError: why"),
        ("import nothing_of_that_name\n", "line 1: the plug-in fails with ModuleNotFoundError"),
        ("x = 1\n\ny = (\n", "line 3: the plug-in fails with SyntaxError"),
        ("x = 1\n", "registers no block"),
    ],
)
def test_a_plugin_that_fails_is_refused_and_leaves_no_name(
    place: Path, text: str, wanted: str
) -> None:
    before = BLOCKS.names()
    path = write(place / "bad.py", text)
    for _ in range(2):
        with pytest.raises(ConfigError) as caught:
            load_plugins([path])
        assert wanted in str(caught.value)
        assert str(path) in str(caught.value)
        assert BLOCKS.names() == before
    with pytest.raises(ConfigError, match="no such plug-in"):
        load_plugins([place / "gone.py"])


def test_a_plugin_is_run_once(place: Path) -> None:
    path = write(place / "once.py", SCALE.format(name="once_only"))
    assert load_plugins([path]) == load_plugins([path])
    assert "once_only" in BLOCKS.names()
