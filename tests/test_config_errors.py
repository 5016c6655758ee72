"""Mistakes made in real model files, each answered by one paragraph that names its place.

A mistake is made in every file of FILES that has what it needs; what the answer must say follows
from the file itself.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nlp_core.cli import main
from nlp_core.models.plan import read_plan
from tests.model_mistakes import MAKERS, Model

ZOO = Path(__file__).resolve().parent.parent / "zoo"
FILES = [
    "conll2003/ccnn_wlstm_crf",
    "conll2003/wlstm",
    "glue/rte_bilstm_attn",
    "glue/sst2_bilstm_attn",
    "wikiqa/bilstm_matchattn",
    "wikiqa/cnn",
    "sample/answer_cnn",
]


def mistakes() -> Iterator[Any]:  # Any: pytest's parameter sets
    for file in FILES:
        for name, make in MAKERS.items():
            found = make(json.loads((ZOO / f"{file}.json").read_text()))
            if found is not None:
                yield pytest.param(*found, id=f"{file.rpartition('/')[2]}-{name}")


CASES = list(mistakes())


def test_there_are_enough_mistakes_of_every_sort() -> None:
    assert len(CASES) >= 60
    used = {case.id.partition("-")[2] for case in CASES if case.id}
    assert used == set(MAKERS)


@pytest.mark.parametrize(("model", "expected"), CASES)
def test_a_mistake_is_one_paragraph_with_file_place_and_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], model: Model | str, expected: list[str]
) -> None:
    path = tmp_path / "model.json"
    path.write_text(model if isinstance(model, str) else json.dumps(model))
    with pytest.raises(SystemExit) as caught:
        main(["show", str(path), "--mermaid"])
    assert caught.value.code == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(f"error: {path}: ")
    assert output.err.count("\n") == 1
    rest = output.err
    for part in expected:
        assert part in rest, output.err
        rest = rest.partition(part)[2]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("file", FILES)
def test_the_files_that_mistakes_are_made_in_are_right(file: str) -> None:
    assert read_plan(ZOO / f"{file}.json").heads
