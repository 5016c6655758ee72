"""Cells that start from a trained cell: first several tasks together, then only one of them."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from nlp_core.config.params import Params
from nlp_core.errors import ConfigError, DataError
from nlp_core.models.saving import read_vocabularies, save_model, transfer_weights
from nlp_core.report.evaluation import evaluate_cell
from nlp_core.training.cell import read_cell
from nlp_core.training.cell_run import train_cell
from nlp_core.training.determinism import seed_everything
from nlp_core.training.run import prepare_tasks
from tests.test_multitask import ENCODER, NAMES, PROPORTIONAL, WORDS
from tests.tiny import make_recipe, write_task, write_vectors
from tests.tiny_encoder import write_encoder
from tests.tiny_group import describe_groups, gather_tasks
from tests.tiny_training import digests

TASK = NAMES[0]
LAYERS = {"words": ["word", "lstm", "one"], "encoder": ["encoder", "pooled"]}
WEIGHTS = "seed-{}/model.safetensors"


def cut_model(model: str) -> dict[str, Any]:
    """Return the part of a model of several tasks that serves the first one, with a fresh head."""
    graph = {"words": WORDS, "encoder": ENCODER}[model]
    name = "words" if model == "words" else "texts"
    head = {key: value for key, value in graph["heads"]["label"].items() if key != "task"}
    return {
        **graph,
        "inputs": {name: graph["inputs"][name]},
        "layers": [layer for layer in graph["layers"] if layer["name"] in LAYERS[model]],
        "heads": {"label": head},
    }


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with two gathered tasks, vectors, an encoder and models for both and for one."""
    monkeypatch.chdir(tmp_path)
    write_vectors(tmp_path)
    write_encoder(tmp_path)
    for name in NAMES:
        write_task(tmp_path, name.removeprefix("tiny_"))
    gather_tasks("two", NAMES[:2])
    gather_tasks("three", NAMES)
    (tmp_path / "zoo").mkdir()
    for name, graph in (("words", WORDS), ("encoder", ENCODER)):
        (tmp_path / f"zoo/{name}.json").write_text(json.dumps(graph))
        (tmp_path / f"zoo/{name}_one.json").write_text(json.dumps(cut_model(name)))
    return tmp_path


def make_params(model: str = "words", trained: tuple[int, ...] = (1,), **changes: Any) -> Params:
    """Return a grid of the cell `all`, of several tasks, and of `one`, which starts from it."""
    init = "tiny_encoder" if model == "encoder" else "tiny_vectors"
    together = {
        "table": "sample",
        "model": f"zoo/{model}.json",
        "data": "two" if model == "encoder" else "three",
        "init": f"data/processed/{init}",
        "recipe": "mixed",
        "seeds": list(trained),
    }
    alone = {
        **together,
        "model": f"zoo/{model}_one.json",
        "data": TASK,
        "init": "artifacts/cells/sample/all",
        "recipe": "short",
        **changes,
    }
    tasks = [*NAMES, "tiny_vectors", "tiny_encoder"]
    return Params.model_validate(
        {
            "numerics": 1,
            "tasks": tasks,
            "groups": describe_groups({"two": NAMES[:2], "three": NAMES}),
            "tables": ["sample"],
            "recipes": {
                "mixed": make_recipe(mixing=PROPORTIONAL, epochs=1).model_dump(),
                "short": make_recipe(epochs=1).model_dump(),
            },
            "experiments": {"all": together, "one": alone},
        }
    )


def start_model(params: Params, seed: int) -> dict[str, torch.Tensor]:
    """Return the weights that a seed of the cell `one` begins with."""
    seed_everything(seed)
    model, _, _ = prepare_tasks(read_cell("one", params), seed)
    return {name: value.clone() for name, value in model.state_dict().items()}


@pytest.mark.parametrize("model", ["words", "encoder"])
def test_layers_go_on_and_heads_begin_anew(project: Path, model: str) -> None:
    params = make_params(model, trained=(1, 2))
    folder = train_cell(read_cell("all", params))
    for seed in (1, 2):
        trained, began = load_file(folder / WEIGHTS.format(seed)), start_model(params, seed)
        blocks = [name for name in began if name.startswith("blocks.")]
        assert {name.split(".")[1] for name in blocks} == set(LAYERS[model]) - {"one", "pooled"}
        for name in blocks:
            assert torch.equal(began[name], trained[name]), name
        assert not torch.equal(began["heads.label.layers.out.weight"], trained["heads.label.layers.out.weight"])  # noqa: E501  # fmt: skip


def test_heads_go_on_where_the_experiment_says_so(project: Path) -> None:
    params = make_params(keep_heads=True)
    trained = load_file(train_cell(read_cell("all", params)) / WEIGHTS.format(1))
    began = start_model(params, 1)
    heads = [name for name in began if name.startswith("heads.")]
    assert heads
    assert all(torch.equal(began[name], trained[name]) for name in heads)


def test_one_seed_may_start_all(project: Path) -> None:
    params = make_params(trained=(1, 2), init_seed=1)
    trained = load_file(train_cell(read_cell("all", params)) / WEIGHTS.format(1))
    name = "blocks.word.weight"
    assert torch.equal(start_model(params, 2)[name], trained[name])


@pytest.mark.parametrize("model", ["words", "encoder"])
def test_a_cell_trained_so_is_measured_and_repeats_its_bytes(project: Path, model: str) -> None:
    params = make_params(model)
    train_cell(read_cell("all", params))
    folder = train_cell(read_cell("one", params))
    note = json.loads((folder / "cell.json").read_text())
    assert note["init"]["path"] == "artifacts/cells/sample/all"
    assert "test.accuracy" in evaluate_cell("one", params, project).metrics
    first = digests(folder)
    (project / "artifacts/work/sample/one").rename(project / "before")
    assert digests(train_cell(read_cell("one", params))) == first


def test_a_seed_is_trained_again_when_what_it_starts_from_is(project: Path) -> None:
    params = make_params()
    train_cell(read_cell("all", params))
    name = read_cell("one", params).name_seed(1)
    before = digests(train_cell(read_cell("one", params)))
    longer = {**params.recipes, "mixed": make_recipe(mixing=PROPORTIONAL, epochs=2)}
    params = params.model_copy(update={"recipes": longer})
    train_cell(read_cell("all", params))
    cell = read_cell("one", params)
    assert cell.name_seed(1) != name
    assert digests(train_cell(cell)) != before


def test_a_chain_finds_the_vectors_at_its_end(project: Path) -> None:
    params = make_params()
    third = params.experiments["one"].model_copy(update={"init": "artifacts/cells/sample/one"})
    params = Params(**{**dict(params), "experiments": {**params.experiments, "two": third}})
    train_cell(read_cell("all", params))
    with pytest.raises(DataError, match=r"'one', which 'two' starts from, is not trained yet"):
        read_cell("two", params)
    train_cell(read_cell("one", params))
    assert read_cell("two", params).init == Path("data/processed/tiny_vectors")


def test_a_cell_that_is_not_trained_says_what_to_run(project: Path) -> None:
    with pytest.raises(DataError, match=r"'one' starts from.*run `dvc repro finetune@all`"):
        read_cell("one", make_params())
    train_cell(read_cell("all", make_params()))
    params = make_params(trained=(1, 2))
    with pytest.raises(DataError, match=r"seed-2/model.safetensors.*`dvc repro finetune@all`"):
        read_cell("one", params)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lstm": {"hidden_dim": 5}}, r"layer 'lstm': .*found \[\d+.*\], expected \[\d+"),
        ({"lstm": {"block": "bigru"}}, r"layer 'lstm': found the block .*expected BiLSTM"),
    ],
)
def test_another_layer_of_the_same_name_is_refused(
    project: Path, change: dict[str, dict[str, Any]], message: str
) -> None:
    train_cell(read_cell("all", make_params()))
    graph = cut_model("words")
    layers = [{**layer, **change.get(layer["name"], {})} for layer in graph["layers"]]
    (project / "zoo/words_one.json").write_text(json.dumps({**graph, "layers": layers}))
    with pytest.raises((ConfigError, DataError), match=message):
        start_model(make_params(), 1)


def test_a_model_without_a_common_layer_is_refused(project: Path) -> None:
    train_cell(read_cell("all", make_params()))
    text = json.dumps(cut_model("words"))
    for name in LAYERS["words"]:
        text = text.replace(f'"{name}"', f'"new_{name}"')
    (project / "zoo/words_one.json").write_text(text)
    with pytest.raises(ConfigError, match=r"layers: found none with a name in zoo/words.json"):
        read_cell("one", make_params())


def test_heads_to_keep_that_are_not_there_are_an_error(project: Path) -> None:
    train_cell(read_cell("all", make_params()))
    text = json.dumps(cut_model("words")).replace('"heads": {"label"', '"heads": {"other"')
    (project / "zoo/words_one.json").write_text(text)
    with pytest.raises(ConfigError, match=r"heads: found none of the names and shapes"):
        start_model(make_params(keep_heads=True), 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"init": "artifacts/cells/sample/one"}, "found a cycle: one from one"),
        ({"init": "artifacts/cells/sample/al"}, "unknown cell 'al'. Did you mean 'all'?"),
        ({"init": "artifacts/cells/other/all"}, "that cell is of the table sample"),
        ({"seeds": [1, 3]}, "'all' is not trained with the seed 3"),
        ({"init_seed": 4}, "'all' is not trained with the seed 4"),
        ({"init": "data/processed/tiny_vectors", "init_seed": 1}, "init is not a trained cell"),
        ({"init": "data/processed/tiny_vectors", "keep_heads": True}, "init is not a trained cell"),
    ],
)
def test_params_that_start_from_nowhere(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        make_params(**changes)


def test_a_cycle_of_cells_is_an_error() -> None:
    values = make_params().model_dump()
    values["experiments"]["all"]["init"] = "artifacts/cells/sample/one"
    with pytest.raises(ValueError, match="found a cycle: all from one from all"):
        Params.model_validate(values)


@pytest.mark.parametrize("name", ["model.safetensors", "vocabulary.json"])
@pytest.mark.parametrize("content", [b"", b"{}", b'{"layers'])
def test_a_damaged_file_to_start_from_is_an_error(project: Path, name: str, content: bytes) -> None:
    model, featurizers, _ = prepare_tasks(read_cell("all", make_params()))
    save_model(project, model.state_dict(), featurizers)
    (project / name).write_bytes(content)

    def start(folder: Path) -> None:
        read_vocabularies(folder, model.plan, folder)
        transfer_weights(model, folder, keep_heads=True)

    with pytest.raises(DataError, match=f"{name}: found a broken file"):
        start(project)
