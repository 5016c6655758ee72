"""Every command of docs/command-line.md runs and prints what the page shows."""

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from nlp_core.cli import template
from nlp_core.cli.program import find_commands
from nlp_core.models.plugin import REGISTRIES
from tests.console import DOCS, ROOT, Example, read_examples, run_reglue
from tests.test_plugin import SCALE
from tests.test_retrieval import write_queries
from tests.user_files import WORDS, write_conll, write_tsv

PAGE = DOCS / "command-line.md"
NAMES = "EU NNP I-NP I-ORG\nrejects VBZ I-VP O\n\nPeter NNP I-NP I-PER\nBonn NNP I-NP I-LOC\n"
SPACE = """values:
  training.optimizer.lr: {low: 1.0e-3, high: 3.0e-2, scale: log}
  training.epochs: {low: 1, high: 2}
  layers.lstm.hidden_dim: {choices: [8, 16]}
"""
EXAMPLES = list(read_examples(PAGE))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the files that the page speaks of."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("zoo", "sources", "reports", "results", "params.yaml", "grid"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "names.txt").write_text(NAMES)
    model = json.loads((ROOT / "zoo" / "sample" / "sentence_bilstm.json").read_text())
    lstm = next(layer for layer in model["layers"] if layer["name"] == "lstm")
    lstm["hidden"] = lstm.pop("hidden_dim")
    (folder / "wrong.json").write_text(json.dumps(model))
    write_tsv(folder / "reviews.tsv", rows=40, header="text\tlabel")
    write_tsv(folder / "later.tsv", rows=10, seed=1, header="text\tlabel")
    write_conll(folder / "people.conll", "IOB1", rows=12)
    flights = [
        {"text": f"fly to {city} now", "entities": [[7, 7 + len(city), "city"]]}
        for city in ["Rome", "Oslo", "Bonn", "Kyiv"] * 6
    ]
    (folder / "flights.jsonl").write_text("".join(json.dumps(row) + "\n" for row in flights))
    write_queries(folder / "faq.tsv")
    (folder / "notes.txt").write_text("a good soup\nthe bill was good\nsoup of the day\n" * 9)
    (folder / "space.yaml").write_text(SPACE)
    (folder / "small.vec").write_text("2 3\nsoup 1 2 3\nbill 4 5 6\n")
    (folder / "scale.py").write_text(SCALE.format(name="page_scale"))
    data = {"kind": "classification", "format": "tsv", "texts": ["text"], "label": "label"}
    model = template.build_template("classification", data, rows=40)
    model["layers"].append({"name": "scaled", "block": "page_scale", "inputs": ["text"]})
    model["heads"]["label"]["inputs"] = ["scaled"]
    (folder / "scaled.json").write_text(json.dumps(model))
    handlers = logging.root.handlers[:]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("COLUMNS", "100")
        patch.setenv("REGLUE_CACHE", str(folder / "cache"))
        patch.setattr(template, "MAX_EPOCHS", 2)
        for registry in REGISTRIES:
            patch.setattr(registry, "_items", dict(registry._items))
        yield folder
    logging.root.handlers[:] = handlers


def test_the_page_has_every_command() -> None:
    shown = {command.split()[1] for command, _ in EXAMPLES}
    assert shown >= set(find_commands())


@pytest.mark.parametrize("example", EXAMPLES, ids=[item.command for item in EXAMPLES])
@pytest.mark.usefixtures("project")
def test_a_command_prints_what_the_page_says(
    example: Example, capsys: pytest.CaptureFixture[str]
) -> None:
    run_reglue(example, capsys)


@pytest.mark.usefixtures("project")
def test_the_python_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.+?)```", PAGE.read_text(), re.DOTALL)
    exec(code, {})
    label, confidence = capsys.readouterr().out.split("\n")[0].split()
    assert label in WORDS
    assert 0 < float(confidence) < 1
