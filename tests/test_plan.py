import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nlp_core.blocks import SEQUENCE, VECTOR, Shape
from nlp_core.errors import ConfigError
from nlp_core.models.plan import read_plan

Change = Callable[[dict[str, Any]], Any]


def make_model() -> dict[str, Any]:
    return {
        "description": "a pair model",
        "source": "a test",
        "inputs": {"first": "tokens_a", "second": "tokens_b"},
        "layers": [
            {"name": "word", "block": "word_embedding", "inputs": ["first"], "dim": 8},
            {"name": "word_b", "block": "word", "inputs": ["second"]},
            {"name": "lstm", "block": "bilstm", "inputs": ["word"], "hidden_dim": 4},
            {"name": "lstm_b", "block": "lstm", "inputs": ["word_b"]},
            {"name": "max_a", "block": "pooling", "inputs": ["lstm"], "pool": "max"},
            {"name": "max_b", "block": "pooling", "inputs": ["lstm_b"], "pool": "max"},
            {"name": "pair", "block": "concat", "inputs": ["max_a", "max_b"]},
        ],
        "heads": {"label": {"head": "classification", "inputs": ["pair"]}},
    }


def write(tmp_path: Path, model: dict[str, Any]) -> Path:
    path = tmp_path / "model.json"
    path.write_text(json.dumps(model), encoding="utf-8")
    return path


def layer(target: str, /, **changes: object) -> Change:
    def change(model: dict[str, Any]) -> None:
        (found,) = [item for item in model["layers"] if item["name"] == target]
        found.update(changes)

    return change


def drop_option(name: str, option: str) -> Change:
    def change(model: dict[str, Any]) -> None:
        (found,) = [item for item in model["layers"] if item["name"] == name]
        del found[option]

    return change


def test_shapes_and_sharing_are_known_before_data(tmp_path: Path) -> None:
    plan = read_plan(write(tmp_path, make_model()))
    shapes = {item.name: item.shape for item in plan.layers}
    assert shapes["lstm_b"] == Shape(SEQUENCE, 8)
    assert shapes["pair"] == Shape(VECTOR, 16)
    assert {item.name: item.owner for item in plan.layers}["lstm_b"] == "lstm"


def test_layers_may_stand_in_any_order(tmp_path: Path) -> None:
    model = make_model()
    model["layers"].reverse()
    names = [item.name for item in read_plan(write(tmp_path, model)).layers]
    assert names.index("word") < names.index("lstm") < names.index("lstm_b") < names.index("pair")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (layer("lstm", block="bilstn"), "layer 'lstm': block: unknown block 'bilstn'. Did you mean 'bilstm'?"),  # noqa: E501
        (layer("lstm", hidden=3), "layer 'lstm': hidden: unknown key. Did you mean 'hidden_dim'?"),
        (layer("lstm", hidden_dim="4"), "layer 'lstm': hidden_dim: found '4'"),
        (layer("lstm", hidden_dim=0), "layer 'lstm': hidden_dim: found 0"),
        (layer("lstm", hidden_dim=4.5), "layer 'lstm': hidden_dim: found 4.5"),
        (layer("lstm", dropout=1.0), "layer 'lstm': dropout: found 1.0"),
        (drop_option("word", "dim"), "layer 'word': dim: this key is missing"),
        (layer("max_a", pool="maximum"), "layer 'max_a': pool: found 'maximum'"),
        (layer("lstm", inputs=["wrd"]), "layer 'lstm': inputs: unknown input or layer 'wrd'. Did you mean 'word'?"),  # noqa: E501
        (layer("lstm", inputs=["word", "word_b"]), "layer 'lstm': inputs: found 2, expected 1"),
        (layer("lstm", inputs=["first"]), "layer 'lstm': inputs: 'first' is words, expected a sequence"),  # noqa: E501
        (layer("pair", inputs=["max_a", "lstm_b"]), "layer 'pair'"),
        (layer("lstm", inputs=["lstm"]), "a cycle"),
        (layer("word", inputs=["pair"]), "a cycle"),
        (layer("lstm_b", hidden_dim=4), "layer 'lstm_b': found the options hidden_dim; the layer shares"),  # noqa: E501
        (layer("max_b", name="max_a"), "layer 'max_a': this name is taken"),
        (layer("lstm", name="Lstm"), "layer 'Lstm': name: found 'Lstm'"),
        (lambda m: m["layers"].append({"name": "extra", "block": "dropout", "inputs": ["lstm"]}), "'extra': nothing reads it"),  # noqa: E501
        (lambda m: m["inputs"].update(third="tokens"), "'third': nothing reads it"),
        (lambda m: m["inputs"].update(first="text"), "inputs.first: found 'text'"),
        (lambda m: m["heads"]["label"].update(head="classify"), "head 'label': head: unknown head 'classify'. Did you mean 'classification'?"),  # noqa: E501
        (lambda m: m["heads"]["label"].update(inputs=["lstm"]), "head 'label': inputs: 'lstm' is a sequence, expected a vector"),  # noqa: E501
        (lambda m: m["heads"]["label"].update(hiden_dims=[3]), "head 'label': hiden_dims: unknown key. Did you mean 'hidden_dims'?"),  # noqa: E501
        (lambda m: m.update(heads={}), "heads: found {}"),
        (lambda m: m.update(layer=[]), "layer: unknown key. Did you mean 'layers'?"),
        (lambda m: m.pop("source"), "source: this key is missing"),
    ],
)  # fmt: skip
def test_mistake_is_named_with_file_layer_and_key(
    tmp_path: Path, change: Change, expected: str
) -> None:
    model = make_model()
    change(model)
    path = write(tmp_path, model)
    with pytest.raises(ConfigError) as caught:
        read_plan(path)
    assert str(caught.value).startswith(str(path))
    assert expected in str(caught.value)


def test_a_layer_goes_before_a_block_of_its_name(tmp_path: Path) -> None:
    model = make_model()
    for item in model["layers"]:
        item["name"] = item["name"].replace("lstm", "linear")
        item["block"] = item["block"].replace("lstm", "linear").replace("bilinear", "bilstm")
        item["inputs"] = [name.replace("lstm", "linear") for name in item["inputs"]]
    owners = {item.name: item.owner for item in read_plan(write(tmp_path, model)).layers}
    assert owners["linear_b"] == "linear"


def make_sequences(*layers: dict[str, Any], head: str = "tagging") -> dict[str, Any]:
    """Make a model of two embedded texts whose last layer a head reads."""
    model = make_model()
    model["layers"] = [*model["layers"][:2], *layers]
    model["heads"] = {"label": {"head": head, "inputs": [layers[-1]["name"]]}}
    return model


def pool(name: str, source: str, **options: int) -> dict[str, Any]:
    return {"name": name, "block": "pooling1d", "inputs": [source], **options}


@pytest.mark.parametrize("block", ["add", "minus"])
def test_sequences_of_different_texts_do_not_stand_side_by_side(tmp_path: Path, block: str) -> None:
    both = {"name": "both", "block": block, "inputs": ["word", "word_b"]}
    with pytest.raises(
        ConfigError,
        match=r"layer 'both': inputs: .*'word' by tokens_a, 'word_b' by tokens_b.*pool them",
    ):
        read_plan(write(tmp_path, make_sequences(both)))


@pytest.mark.parametrize(
    ("block", "inputs", "options"),
    [
        ("matrix_multiply", ["word", "word_b"], {"operation": "seq_based"}),
        ("full_attention", ["word", "word_b", "word_b", "word"], {}),
        ("full_attention", ["word", "word_b", "word", "word"], {}),
    ],
)
def test_a_block_that_sums_over_shared_tokens_wants_one_text(
    tmp_path: Path, block: str, inputs: list[str], options: dict[str, Any]
) -> None:
    both: dict[str, Any] = {"name": "both", "block": block, "inputs": inputs, **options}
    whole = {"name": "whole", "block": "pooling", "inputs": ["both"]}
    layers = [both] if options else [both, whole]
    with pytest.raises(
        ConfigError, match=r"layer 'both': inputs: .*by tokens_\w.*the same tokens in"
    ):
        read_plan(write(tmp_path, make_sequences(*layers, head="classification")))


def test_a_block_is_asked_which_inputs_share_their_tokens(tmp_path: Path) -> None:
    both = {
        "name": "both",
        "block": "full_attention",
        "inputs": ["word", "word_b", "word", "word_b"],
    }
    product = {"name": "product", "block": "matrix_multiply", "inputs": ["both", "word_b"]}
    product |= {"operation": "dim_based", "num_tokens": 3}
    square = {"name": "square", "block": "matrix_multiply", "inputs": ["both", "product"]}
    square |= {"operation": "seq_based"}
    plan = read_plan(write(tmp_path, make_sequences(both, product, square, head="classification")))
    assert plan.layers[-1].shape == Shape(VECTOR, 8 * 3)


def test_pooled_sequences_stand_side_by_side_where_their_windows_are_equal(tmp_path: Path) -> None:
    grid = {"name": "grid", "block": "interaction", "inputs": ["short", "word_b"]}
    vector = {"name": "pair", "block": "grid_kmax", "inputs": ["grid"], "k": 2}
    both = {"name": "short", "block": "concat", "inputs": ["one", "two"]}
    layers = [pool("one", "word", window=3), pool("two", "word", window=3), both, grid, vector]
    plan = read_plan(write(tmp_path, make_sequences(*layers, head="classification")))
    assert plan.layers[-1].shape == Shape(VECTOR, 2)
    layers[1] = pool("two", "word", window=2)
    with pytest.raises(ConfigError, match=r"layer 'short': .*Pooling1D\(window 3\)"):
        read_plan(write(tmp_path, make_sequences(*layers, head="classification")))


def test_tags_need_a_place_for_each_token(tmp_path: Path) -> None:
    model = make_sequences(pool("short", "word", window=2))
    del model["layers"][1], model["inputs"]["second"]
    with pytest.raises(
        ConfigError, match="head 'label': inputs: 'short' does not have the text's lengths"
    ):
        read_plan(write(tmp_path, model))


def test_sharing_needs_the_same_widths(tmp_path: Path) -> None:
    model = make_model()
    model["layers"][1] = {
        "name": "word_b",
        "block": "word_embedding",
        "inputs": ["second"],
        "dim": 9,
    }
    with pytest.raises(ConfigError, match=r"layer 'lstm_b': inputs: found widths \[9\]"):
        read_plan(write(tmp_path, model))


@pytest.mark.parametrize("path", sorted(Path("zoo").rglob("*.json")), ids=str)
def test_every_model_of_the_zoo_fits(path: Path) -> None:
    assert read_plan(path).heads


def make_readers(**inputs: str) -> dict[str, Any]:
    """Return a model of an encoder of its own for each input."""
    options = {"block": "pretrained_encoder", "dim": 8}
    return {
        **make_model(),
        "inputs": inputs,
        "layers": [
            *({"name": f"read_{name}", "inputs": [name], **options} for name in inputs),
            *(
                {"name": name + "_top", "block": "pooling", "inputs": [f"read_{name}"]}
                for name in inputs
            ),
            {"name": "pair", "block": "concat", "inputs": [f"{name}_top" for name in inputs]},
        ],
    }


def test_texts_read_apart_are_those_of_pairs(tmp_path: Path) -> None:
    plan = read_plan(write(tmp_path, make_readers(first="text_a", second="text_b")))
    assert plan.kinds == ["pair_classification", "ranking"]
    assert "classification" in read_plan(write(tmp_path, make_readers(both="texts"))).kinds


def test_a_text_is_cut_into_pieces_by_one_encoder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="read_again and read_first on text_a, expected one enc"):
        read_plan(write(tmp_path, make_readers(first="text_a", again="text_a")))
