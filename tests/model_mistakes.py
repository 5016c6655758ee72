"""Mistakes that a person makes in a model file, and what the answer to each must say."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from nlp_core.blocks import BLOCKS, SEQUENCE, WORDS
from nlp_core.heads import HEADS

Model = dict[str, Any]


class Mistake(NamedTuple):
    """A changed model file, as an object or as text, and what the answer must hold, in order."""

    model: Model | str
    expected: list[str]


Maker = Callable[[Model], Mistake | None]
MAKERS: dict[str, Maker] = {}


def maker(make: Maker) -> Maker:
    MAKERS[make.__name__] = make
    return make


def owners(model: Model) -> list[Model]:
    """Return the layers that have parameters, or at least options, of their own."""
    names = {layer["name"] for layer in model["layers"]}
    return [layer for layer in model["layers"] if layer["block"] not in names]


def find(model: Model, *blocks: str) -> Model | None:
    return next((layer for layer in model["layers"] if layer["block"] in blocks), None)


def sharer(model: Model) -> Model | None:
    names = {layer["name"] for layer in model["layers"]}
    return next((layer for layer in model["layers"] if layer["block"] in names), None)


def head(model: Model) -> tuple[str, Model]:
    ((name, found),) = model["heads"].items()
    return name, found


def misspell(name: str) -> str:
    return name[:-2] + name[-1] + name[-2] if name[-1] != name[-2] else name + "x"


@maker
def drop_a_key_of_a_layer(model: Model) -> Mistake:
    layer = model["layers"][-1]
    del layer["inputs"]
    return Mistake(model, [f"layer '{layer['name']}'", "inputs: this key is missing"])


@maker
def drop_the_block(model: Model) -> Mistake:
    layer = model["layers"][0]
    del layer["block"]
    return Mistake(model, [f"layer '{layer['name']}'", "block: this key is missing"])


@maker
def drop_the_name(model: Model) -> Mistake:
    del model["layers"][1]["name"]
    return Mistake(model, ["layers: number 2: name: this key is missing"])


@maker
def drop_a_required_option(model: Model) -> Mistake | None:
    layer = find(model, "word_embedding")
    assert layer is not None
    del layer["dim"]
    return Mistake(model, [f"layer '{layer['name']}'", "dim: this key is missing"])


@maker
def drop_a_key_of_the_file(model: Model) -> Mistake:
    del model["heads"]
    return Mistake(model, ["heads: this key is missing"])


@maker
def drop_the_head_of_a_head(model: Model) -> Mistake:
    name, found = head(model)
    del found["head"]
    return Mistake(model, [f"head '{name}'", "head: this key is missing"])


@maker
def misspell_an_option(model: Model) -> Mistake:
    layer = next(item for item in reversed(owners(model)) if len(item) > 3 and "p" not in item)
    key = next(key for key in layer if key not in ("name", "block", "inputs"))
    layer[misspell(key)] = layer.pop(key)
    place = f"layer '{layer['name']}'"
    return Mistake(model, [place, f"{misspell(key)}: unknown key. Did you mean '{key}'?"])


@maker
def misspell_a_key_of_a_head(model: Model) -> Mistake:
    name, found = head(model)
    found["hed"] = found.pop("head")
    return Mistake(model, [f"head '{name}'", "head: this key is missing"])


@maker
def misspell_a_key_of_the_file(model: Model) -> Mistake:
    model["layesr"] = model.pop("layers")
    return Mistake(model, ["layesr: unknown key. Did you mean 'layers'?"])


@maker
def give_text_for_a_number(model: Model) -> Mistake:
    layer = owners(model)[0]
    layer["dim"] = str(layer["dim"])
    place = f"layer '{layer['name']}'"
    return Mistake(model, [place, f"dim: found '{layer['dim']}'", "integer"])


@maker
def give_a_number_for_a_text(model: Model) -> Mistake:
    layer = model["layers"][-1]
    layer["block"] = 7
    return Mistake(model, [f"layer '{layer['name']}'", "block: found 7", "string"])


@maker
def give_a_text_for_a_list(model: Model) -> Mistake:
    layer = model["layers"][-1]
    layer["inputs"] = layer["inputs"][0]
    place = f"layer '{layer['name']}'"
    return Mistake(model, [place, f"inputs: found '{layer['inputs']}'", "array"])


@maker
def give_a_negative_width(model: Model) -> Mistake | None:
    layer = find(model, "bilstm", "conv_pooling")
    assert layer is not None
    key = "hidden_dim" if layer["block"] == "bilstm" else "filters"
    layer[key] = -layer[key]
    place = f"layer '{layer['name']}'"
    return Mistake(model, [place, f"{key}: found {layer[key]}", "greater than or equal to 1"])


@maker
def give_a_probability_above_one(model: Model) -> Mistake | None:
    layer = find(model, "dropout")
    if layer is None:
        return None
    layer["p"] = 1.5
    return Mistake(model, [f"layer '{layer['name']}'", "p: found 1.5", "less than 1"])


@maker
def give_a_fraction_for_a_count(model: Model) -> Mistake | None:
    name, found = head(model)
    if "hidden_dims" not in found:
        return None
    found["hidden_dims"] = [12.5]
    return Mistake(model, [f"head '{name}'", "hidden_dims.0: found 12.5", "integer"])


@maker
def read_what_is_not_there(model: Model) -> Mistake:
    layer = model["layers"][-1]
    name = layer["inputs"][0]
    layer["inputs"][0] = name + "x"
    place = f"layer '{layer['name']}'"
    message = f"inputs: unknown input or layer '{name}x'. Did you mean '{name}'?"
    return Mistake(model, [place, message])


@maker
def let_the_head_read_what_is_not_there(model: Model) -> Mistake:
    name, found = head(model)
    layer = found["inputs"][0]
    found["inputs"] = [layer + "x"]
    place = f"head '{name}'"
    return Mistake(model, [place, f"inputs: unknown layer '{layer}x'. Did you mean '{layer}'?"])


@maker
def let_the_head_read_the_wrong_rank(model: Model) -> Mistake:
    name, found = head(model)
    word = owners(model)[0]["name"]
    source = next(iter(model["inputs"]))
    is_tagger = HEADS.get(found["head"]).ranks == ((SEQUENCE,),)
    found["inputs"] = [source if is_tagger else word]
    message = f"'{source}' is words" if is_tagger else f"'{word}' is a sequence"
    return Mistake(model, [f"head '{name}'", f"inputs: {message}, expected a"])


@maker
def let_a_layer_read_the_wrong_rank(model: Model) -> Mistake:
    layer = next(item for item in owners(model) if WORDS not in BLOCKS.get(item["block"]).ranks[0])
    source = next(iter(model["inputs"]))
    layer["inputs"][0] = source
    is_character = "char" in layer["block"]
    message = f"inputs: '{source}' is words, expected {'characters' if is_character else 'a '}"
    return Mistake(model, [f"layer '{layer['name']}'", message])


@maker
def let_two_layers_wait_for_each_other(model: Model) -> Mistake | None:
    layers = {layer["name"]: layer for layer in model["layers"]}
    _, found = head(model)
    last = layers[found["inputs"][0]]
    before = layers[last["inputs"][0]]
    before["inputs"] = [last["name"]]
    first, second = sorted([last["name"], before["name"]])
    return Mistake(model, ["layer '", "inputs: ", f"{first} waits for {second}", "a cycle"])


@maker
def let_a_layer_read_itself(model: Model) -> Mistake:
    layer = model["layers"][-1]
    layer["inputs"] = [layer["name"]]
    name = layer["name"]
    return Mistake(model, [f"layer '{name}'", f"inputs: {name} waits for {name}, a cycle"])


@maker
def misspell_a_block(model: Model) -> Mistake:
    layer = owners(model)[-1]
    block = layer["block"]
    layer["block"] = misspell(block)
    message = f"block: unknown block '{misspell(block)}'. Did you mean '{block}'?"
    return Mistake(model, [f"layer '{layer['name']}'", message])


@maker
def misspell_a_head(model: Model) -> Mistake:
    name, found = head(model)
    kind = found["head"]
    found["head"] = misspell(kind)
    message = f"head: unknown head '{misspell(kind)}'. Did you mean '{kind}'?"
    return Mistake(model, [f"head '{name}'", message])


@maker
def misspell_an_activation(model: Model) -> Mistake | None:
    layer = next((item for item in model["layers"] if "activation" in item), None)
    name, found = head(model)
    if layer is None and "activation" not in found:
        return None
    place = f"head '{name}'" if layer is None else f"layer '{layer['name']}'"
    (found if layer is None else layer)["activation"] = "rleu"
    return Mistake(model, [place, "activation: found 'rleu'. Did you mean 'relu'?"])


@maker
def name_a_pooling_that_is_none(model: Model) -> Mistake | None:
    layer = find(model, "pooling")
    if layer is None:
        return None
    layer["pool"] = "average"
    message = "pool: found 'average'. Allowed: first, last, max, mean."
    return Mistake(model, [f"layer '{layer['name']}'", message])


@maker
def give_two_layers_one_name(model: Model) -> Mistake:
    name = model["layers"][0]["name"]
    model["layers"][1]["name"] = name
    return Mistake(model, [f"layer '{name}'", "this name is taken"])


@maker
def give_a_layer_the_name_of_an_input(model: Model) -> Mistake:
    name = next(iter(model["inputs"]))
    model["layers"][-1]["name"] = name
    return Mistake(model, [f"layer '{name}'", "this name is taken"])


@maker
def mean_a_block_by_the_name_of_a_layer(model: Model) -> Mistake:
    blocks = [layer["block"] for layer in model["layers"]]
    layer = next(item for item in reversed(owners(model)) if blocks.count(item["block"]) == 1)
    block, former = layer["block"], model["layers"][0]["name"]
    model = json.loads(json.dumps(model).replace(f'"{former}"', f'"{block}"'))
    (layer,) = [item for item in model["layers"] if item["name"] == layer["name"]]
    layer["rate"] = 0.3
    message = f"the layer shares the parameters of '{block}' and can have none"
    expected = [f"layer '{layer['name']}'", "rate", message, "rename that layer if you mean"]
    return Mistake(model, expected)


@maker
def give_a_layer_a_name_with_a_blank(model: Model) -> Mistake:
    model["layers"][0]["name"] = "two words"
    return Mistake(model, ["layer 'two words': name: found 'two words'"])


@maker
def write_a_key_twice(model: Model) -> Mistake:
    name = model["layers"][0]["name"]
    text = json.dumps(model).replace('"dim": ', '"dim": 3, "dim": ', 1)
    return Mistake(text, [f"the key 'dim' twice in the object named '{name}'"])


@maker
def cut_the_file_off(model: Model) -> Mistake:
    text = json.dumps(model, indent=1)[:-20]
    return Mistake(text, [f"not valid JSON at line {text.count(chr(10)) + 1}, column"])


@maker
def put_widths_together_that_differ(model: Model) -> Mistake | None:
    layer = find(model, "cross_attention", "match_attention")
    if layer is None or layer["inputs"][0] == layer["inputs"][1]:
        return None
    layer["inputs"][1] = "word_50"
    message = f"{layer['block']}: found widths"
    return Mistake(model, [f"layer '{layer['name']}'", message, "word_50 [B,T,50]"])


@maker
def share_with_another_width(model: Model) -> Mistake | None:
    layer = next((item for item in model["layers"] if item["block"] in ("lstm", "cnn")), None)
    if layer is None:
        return None
    word = owners(model)[0]
    wide = {"name": "wide", "block": "word_embedding", "inputs": word["inputs"], "dim": 9}
    layer["inputs"] = ["wide"]
    model["layers"].append(wide)
    place = f"layer '{layer['name']}'"
    return Mistake(model, [place, "inputs: found widths [9], expected those of"])


@maker
def set_an_option_of_a_shared_layer(model: Model) -> Mistake | None:
    layer = sharer(model)
    if layer is None:
        return None
    layer["dropout"] = 0.3
    message = "found the options dropout; the layer shares the parameters of"
    return Mistake(model, [f"layer '{layer['name']}'", message])


@maker
def add_a_layer_that_nothing_reads(model: Model) -> Mistake:
    word = owners(model)[0]["name"]
    model["layers"].append({"name": "spare", "block": "dropout", "inputs": [word]})
    return Mistake(model, ["layer or input 'spare': nothing reads it"])


@maker
def read_one_input_too_many(model: Model) -> Mistake:
    layer = owners(model)[0]
    layer["inputs"] *= 2
    return Mistake(model, [f"layer '{layer['name']}'", "inputs: found 2, expected 1"])


@maker
def read_nothing(model: Model) -> Mistake:
    layer = model["layers"][-1]
    layer["inputs"] = []
    return Mistake(model, [f"layer '{layer['name']}'", "inputs: found []", "at least 1"])


@maker
def let_a_head_read_two_layers(model: Model) -> Mistake:
    name, found = head(model)
    found["inputs"] *= 2
    return Mistake(model, [f"head '{name}'", "inputs: found 2, expected 1"])


@maker
def name_a_column_that_is_none(model: Model) -> Mistake:
    name = next(iter(model["inputs"]))
    column = model["inputs"][name]
    model["inputs"][name] = column + "x"
    message = f"inputs.{name}: found '{column}x'. Did you mean '{column}'?"
    return Mistake(model, [message])
