"""What a matching of a student with its teacher is an error for: layers, encoders, teachers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from nlp_core.config.params import Params, read_params
from nlp_core.encoders.pretrained import PretrainedEncoder
from nlp_core.errors import ConfigError, DataError
from nlp_core.files import write_json
from nlp_core.training.cell import Cell, read_cell
from nlp_core.training.run import prepare_tasks
from tests.tiny import write_task
from tests.tiny_encoder import TINY_ENCODER, write_encoder
from tests.tiny_group import describe_groups
from tests.tiny_matching import MATCHING, make_model, make_params, plain, project
from tests.tiny_teaching import ask

__all__ = ["project"]
NARROW: dict[str, Any] = {**TINY_ENCODER, "hidden_size": 4, "num_attention_heads": 1}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"hidden": {}, "attention": {}}, "found no layer in hidden or attention"),
        ({"attention": {0: 1}}, "greater than or equal to 1|found 0"),
        ({"hidden": {-1: 1}}, "greater than or equal to 0|found -1"),
        ({"hidden_weight": -1.0}, "hidden_weight"),
        ({"layers": "encoder"}, "layers: unknown key. Did you mean 'layer'"),
    ],
)
def test_wrong_matching_is_refused(project: Path, change: dict[str, Any], expected: str) -> None:
    values = plain(make_params())
    values["recipes"]["taught"]["distillation"]["matching"] |= change
    (project / "params.yaml").write_text(yaml.safe_dump(values))
    with pytest.raises(ConfigError, match=expected):
        read_params(project / "params.yaml")


def test_group_of_tasks_is_refused(project: Path) -> None:
    values = plain(make_params())
    write_task(project, "tagging")
    values["tasks"].append("tiny_tagging")
    values["groups"] = describe_groups({"both": ["one", "tiny_tagging"]})
    values["experiments"]["young"]["data"] = "both"
    values["recipes"]["taught"]["mixing"] = {"name": "proportional"}
    (project / "params.yaml").write_text(yaml.safe_dump(values))
    with pytest.raises(ConfigError, match="found a matching and 'both', a group of tasks"):
        read_params(project / "params.yaml")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"matching": {**MATCHING, "layer": "encode"}}, r"found no 'encode', .* Did you mean"),
        (
            {"matching": {**MATCHING, "teacher_layer": "top"}},
            "found Pooling, expected a pretrained",
        ),
        ({"matching": {**MATCHING, "hidden": {2: 1}}}, r"young\.json.* found 1 transformer layers"),
        (
            {"matching": {**MATCHING, "attention": {1: 3}}},
            r"old\.json.* found 2 transformer layers",
        ),
        (
            {"student": make_model("classification", max_length=12)},
            "found max_length 12, expected 16",
        ),
        (
            {"teachers": {"one": {"seeds": [1, 2]}}, "seeds": (1, 2)},
            r"soft labels of 2 teachers .*/old seed 1, .*/old seed 2",
        ),
        (
            {"teachers": {"one": {}, "two": {"seeds": [2]}}, "seeds": (1, 2)},
            r"soft labels of 2 teachers",
        ),
    ],
)
def test_what_cannot_be_matched_is_refused(
    project: Path, changes: dict[str, Any], expected: str
) -> None:
    cell = ask(make_params(**changes))
    with pytest.raises((ConfigError, DataError), match=expected):
        prepare_tasks(cell)


def test_encoders_that_do_not_line_up_are_refused(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = make_params()
    ask(params)
    kept = project / "data/processed/tiny_encoder"
    kept.rename(project / "kept")
    monkeypatch.setattr("tests.tiny_encoder.TINY_ENCODER", NARROW)
    other = write_encoder(project).rename(kept.with_name("other_encoder"))
    (project / "kept").rename(kept)
    student = make_model("classification", num_layers=1, dim=4)
    with pytest.raises(ConfigError, match="found hidden states of width 4, expected 8"):
        prepare_tasks(start_from_other(params, student))
    attention = make_params(matching={**MATCHING, "hidden": {}})
    with pytest.raises(ConfigError, match="found attention heads: 1, expected 2"):
        prepare_tasks(start_from_other(attention, student))
    path = other / "tokenizer.json"
    path.write_text(path.read_text().replace('"lowercase": true', '"lowercase": false'))
    with pytest.raises(ConfigError, match=r"young\.json: .* found another tokenizer than that of"):
        prepare_tasks(start_from_other(params, student))


def start_from_other(params: Params, student: dict[str, Any]) -> Cell:
    """Return the student, of another model file, that begins from the other encoder."""
    graph = {"description": "young", "source": "a test", **student}
    write_json(Path("zoo/young.json"), graph)
    return replace(read_cell("young", params), init=Path("data/processed/other_encoder"))


def test_attention_of_an_encoder_in_a_way_of_its_own_is_refused(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = ask(make_params())
    monkeypatch.setattr(PretrainedEncoder, "allow_attention", lambda self: False)
    with pytest.raises(ConfigError, match="type bert, whose attention cannot be read"):
        prepare_tasks(cell)


def test_teacher_that_is_gone_or_was_trained_anew_is_refused(project: Path) -> None:
    cell = ask(make_params())
    folder = project / "artifacts/cells/sample/old"
    (folder / "seed-1/model.safetensors").write_bytes(b"")
    with pytest.raises(DataError, match=r"found no weights, or others than cell\.json says"):
        prepare_tasks(cell)
    folder.rename(project / "gone")
    with pytest.raises(DataError, match="the cell 'old' is not trained yet; run `dvc repro"):
        prepare_tasks(cell)
