"""The order of a model file's layers, and the checks of its names."""

from nlp_core.config.model import LayerConfig, ModelConfig
from nlp_core.errors import ConfigError, suggest


def check_names(config: ModelConfig, where: str) -> None:
    seen = set(config.inputs)
    for layer in config.layers:
        if layer.name in seen:
            raise ConfigError(
                f"{where}: layer '{layer.name}': this name is taken; expected a different name for "
                "each input and layer."
            )
        seen.add(layer.name)


def sort_layers(config: ModelConfig, where: str) -> list[LayerConfig]:
    """Return the layers in an order in which each follows what it reads or shares.

    Raises:
        ConfigError: a layer reads something unknown, or there is a cycle.
    """
    layers = {layer.name: layer for layer in config.layers}
    known = {*config.inputs, *layers}
    done: set[str] = set(config.inputs)
    ordered: list[LayerConfig] = []
    waiting = list(config.layers)
    for layer in config.layers:
        for name in layer.inputs:
            if name not in known:
                raise ConfigError(
                    f"{where}: layer '{layer.name}': inputs: unknown input or layer '{name}'. "
                    f"{suggest(name, known - {layer.name})}"
                )
    while waiting:
        ready = [layer for layer in waiting if _needs(layer, layers) <= done]
        if not ready:
            cycle = _find_cycle(waiting[0].name, layers, done)
            raise ConfigError(
                f"{where}: layer '{cycle[0]}': inputs: {' waits for '.join([*cycle, cycle[0]])}, a "
                "cycle; expected each layer to read only inputs and layers that do not read it."
            )
        ordered.extend(ready)
        done.update(layer.name for layer in ready)
        waiting = [layer for layer in waiting if layer.name not in done]
    return ordered


def _find_cycle(name: str, layers: dict[str, LayerConfig], done: set[str]) -> list[str]:
    path = [name]
    while True:
        name = min(_needs(layers[name], layers) - done)
        if name in path:
            return path[path.index(name) :]
        path.append(name)


def _needs(layer: LayerConfig, layers: dict[str, LayerConfig]) -> set[str]:
    shared = layer.block in layers and layer.block != layer.name
    return {*layer.inputs, *([layer.block] if shared else [])}


def check_head_tasks(config: ModelConfig, where: str) -> None:
    """Raise if only some of the heads name a task."""
    without = [name for name, head in config.heads.items() if head.task is None]
    if without and len(without) < len(config.heads):
        raise ConfigError(
            f"{where}: head '{without[0]}': task: found none, expected the name of a task, as for "
            "the other heads."
        )


def check_read(config: ModelConfig, where: str) -> None:
    read = {name for layer in config.layers for name in layer.inputs}
    read |= {name for head in config.heads.values() for name in head.inputs}
    for name in [*config.inputs, *(layer.name for layer in config.layers)]:
        if name not in read:
            raise ConfigError(
                f"{where}: layer or input '{name}': nothing reads it; remove it, or add it to the "
                "inputs of a layer or head."
            )
