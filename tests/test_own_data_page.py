"""Every command and every line of Python of docs/own-data.md is run, in its order."""

import json
import logging
import re
import shlex
from pathlib import Path

import pytest

from nlp_core.cli import main
from nlp_core.models.plugin import REGISTRIES
from tests.own_files import write_conll, write_tsv
from tests.test_plugin import LAYER, SCALE

PAGE = Path(__file__).parent.parent / "docs/own-data.md"
QUICK = ["--set", "layers.word.dim=8", "--set", "layers.lstm.hidden_dim=4", "--epochs", "2"]


def write_inputs(place: Path) -> None:
    """Write the files that the page speaks of."""
    write_tsv(place / "reviews.tsv", rows=40)
    write_tsv(place / "later.tsv", rows=10, seed=1)
    write_conll(place / "people.conll", rows=12)
    (place / "small.vec").write_text("2 3\nsoup 1 2 3\nbill 4 5 6\n", encoding="utf-8")
    (place / "scale.py").write_text(SCALE.format(name="page_scale"), encoding="utf-8")


def write_scaled(place: Path) -> None:
    """Write the model file that reads the block of scale.py."""
    model = json.loads((place / "reviews.json").read_text())
    model["layers"].append(json.loads(LAYER.replace("my_scale", "page_scale")))
    model["heads"]["label"]["inputs"] = ["scaled"]
    (place / "scaled.json").write_text(json.dumps(model), encoding="utf-8")


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGLUE_CACHE", str(tmp_path / "cache"))
    handlers = logging.root.handlers[:]
    names = [registry.names() for registry in REGISTRIES]
    write_inputs(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    commands = re.findall(r"^    reglue (.+)$", text, re.MULTILINE)
    assert len(commands) == 11
    for command in commands:
        quick = QUICK if command.startswith("train") and "--set" not in command else []
        main([*shlex.split(command), *quick])
        if command.startswith("new classification"):
            write_scaled(tmp_path)
    assert (tmp_path / "said.tsv").read_text().count("\n") == 10
    assert (tmp_path / "artifacts/vectors/vectors/vectors.safetensors").exists()
    saved = json.loads((tmp_path / "artifacts/other/model.json").read_text())
    assert saved["training"]["clip_norm"] == 1.0
    (code,) = re.findall(r"```python\n(.+?)```", text, re.DOTALL)
    exec(code, {})
    logging.root.handlers[:] = handlers
    for registry, known in zip(REGISTRIES, names, strict=True):
        registry.keep_only(known)
