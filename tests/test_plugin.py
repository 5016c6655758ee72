"""The user's blocks: loaded, remembered, asked for, refused."""

import json
import shutil
from pathlib import Path

import pytest

from nlp_core.blocks import BLOCKS
from nlp_core.cli import main
from nlp_core.config.user_data import DataConfig
from nlp_core.data.tokenization import TOKENIZERS
from nlp_core.data.user_file import read_user_file
from nlp_core.errors import ConfigError
from nlp_core.models.plugin import load_plugins
from nlp_core.prediction.predictor import Predictor
from nlp_core.prediction.trained_model import TrainedModel
from tests.user_files import SMALL, put, write_tsv

pytestmark = pytest.mark.usefixtures("place")

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
TOKENIZER = """
from nlp_core.data.tokenization import TOKENIZERS


@TOKENIZERS.register("letters")
def split_letters(text):
    return list(text.{method}())
"""


def make_model(place: Path) -> None:
    """Write a model file whose head reads the block of the plug-in."""
    write_tsv(place / "a.tsv", rows=40)
    main(["new", "classification", "--train", "a.tsv", "-o", "m.json"])
    model = json.loads((place / "m.json").read_text())
    layer = {"name": "scaled", "block": "my_scale", "inputs": ["text"], "start": 0.5}
    model["layers"].append(layer)
    model["heads"]["label"]["inputs"] = ["scaled"]
    put(place / "m.json", json.dumps(model))


def test_a_block_of_ones_own_trains_and_is_asked_for_at_predict(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_model(place)
    plugin = put(place / "my_block.py", SCALE.format(name="my_scale"))
    train = ["train", "m.json", "--train", "a.tsv", "-o", "out", *SMALL, "--epochs", "1"]
    with pytest.raises(SystemExit):
        main(train)
    assert "unknown block 'my_scale'" in capsys.readouterr().err
    main([*train, "--plugin", "my_block.py"])
    assert "Next: reglue predict out --plugin my_block.py" in capsys.readouterr().out
    page = (place / "out/report.html").read_text(encoding="utf-8")
    assert "--train a.tsv --seed 1 --plugin my_block.py -o AGAIN" in page
    with pytest.raises(ConfigError, match=r"trained with the plug-in my_block.py .* --plugin"):
        Predictor(TrainedModel.open("out"))
    (prediction,) = Predictor(TrainedModel.open("out", plugins=[plugin])).predict(["the soup"])
    assert prediction.confidence is not None
    other = put(place / "other.py", SCALE.format(name="other_scale"))
    with pytest.raises(ConfigError, match=r"trained with the plug-in my_block\.py"):
        Predictor(TrainedModel.open("out", plugins=[other]))
    shutil.move(plugin, place / "moved.py")
    main(["test", "out", "--data", "a.tsv", "--plugin", "moved.py"])


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (SCALE.format(name="bilstm"), "block 'bilstm' is registered twice"),
        (SCALE.format(name="fresh") + "\nraise ValueError('why')\n", "ValueError: why"),
        ("import nothing_of_that_name\n", "line 1: the plug-in fails with ModuleNotFoundError"),
        ("x = 1\n\ny = (\n", "line 3: the plug-in fails with SyntaxError"),
        ("x = 1\n", "registers no block"),
    ],
)
def test_a_plugin_that_fails_is_refused(place: Path, text: str, wanted: str) -> None:
    path = put(place / "bad.py", text)
    for _ in range(2):
        with pytest.raises(ConfigError) as caught:
            load_plugins([path])
    assert wanted in str(caught.value)
    assert str(path) in str(caught.value)
    with pytest.raises(ConfigError, match="no such plug-in"):
        load_plugins([place / "gone.py"])


def test_a_plugin_that_failed_is_loaded_after_it_was_corrected(place: Path) -> None:
    text = SCALE.format(name="mended")
    path = put(place / "mended.py", text + "\nraise ValueError('why')\n")
    for _ in range(2):
        with pytest.raises(ConfigError, match="ValueError: why"):
            load_plugins([path])
        assert "mended" not in BLOCKS.names()
    put(path, text)
    load_plugins([path])
    assert "mended" in BLOCKS.names()


def test_a_plugin_is_run_once(place: Path) -> None:
    path = put(place / "once.py", SCALE.format(name="once_only"))
    assert load_plugins([path]) == load_plugins([path])
    assert "once_only" in BLOCKS.names()


def test_a_tokenizer_that_changes_reads_the_file_again(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_tsv(place / "a.tsv", rows=4)
    values = {"kind": "classification", "format": "tsv", "texts": ["1"], "label": "2"}
    data = DataConfig.model_validate({**values, "header": False, "tokens": "letters"})
    found = []
    for method in ("lower", "upper"):
        monkeypatch.setattr(TOKENIZERS, "_items", {})
        load_plugins([put(place / f"{method}.py", TOKENIZER.format(method=method))])
        found.append(read_user_file(path, data, "train").texts["tokens"].list_rows()[0])
    assert found[0] != found[1]
    assert [letter.upper() for letter in found[0]] == found[1]
