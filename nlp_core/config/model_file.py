"""A model file as text: overrides by a path of keys, and JSON with a line for each layer."""

import json
from typing import Any

from nlp_core.errors import ConfigError, suggest

Mapping = dict[str, Any]
SECTIONS = ("inputs", "layers", "heads", "data", "training", "notes")
"""Keys whose items have a line each."""


def set_value(model: Mapping, assignment: str) -> None:
    """Change one value of a model file in place.

    Args:
        model: the content of the file.
        assignment: `path.to.key=value`; an item of a list goes by its name or its position, as in
            `layers.lstm.hidden_dim=64` or `data.texts.0=title`. The value is JSON if it can be
                parsed,
            except in place of a text.

    Raises:
        ConfigError: there is no `=`, or the path leads nowhere.
    """
    path, sign, text = assignment.partition("=")
    keys = path.strip().split(".")
    if not sign or not all(keys):
        raise ConfigError(
            f"--set {assignment}: expected a path of keys, = and a value, such as "
            "training.optimizer.lr=0.01 or layers.lstm.hidden_dim=64."
        )
    place: Any = model
    for idx, key in enumerate(keys[:-1]):
        key = _find(place, key, f"--set {assignment}: {'.'.join(keys[:idx]) or 'the model file'}")
        if isinstance(place, dict) and place.get(key) is None:
            place[key] = {}
        place = place[key]
    last = _find(place, keys[-1], f"--set {assignment}: {'.'.join(keys[:-1]) or 'the model file'}")
    value = _parse(text)
    before = place.get(last) if isinstance(place, dict) else place[last]
    is_text = isinstance(before, str) and not isinstance(value, str | None)
    place[last] = text if is_text else value


def format_model(model: Mapping) -> str:
    blocks = []
    for key, value in model.items():
        lines = []
        if key in SECTIONS and isinstance(value, list):
            lines = [_compact(item) for item in value]
        elif key in SECTIONS and isinstance(value, dict):
            lines = [f"{_compact(name)}: {_compact(item)}" for name, item in value.items()]
        text = _compact(value)
        if lines:
            text = text[0] + "\n    " + ",\n    ".join(lines) + "\n  " + text[-1]
        blocks.append(f"  {_compact(key)}: {text}")
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def find_line(text: str, section: str, key: str) -> int:
    """Return the line, counted from 1, of a key of a section in the text of `format_model`."""
    lines = text.split("\n")
    start = next(i for i, line in enumerate(lines) if line.startswith(f'  "{section}"'))
    return next(i for i, line in enumerate(lines, 1) if i > start and f'    "{key}":' in line)


def _find(place: Any, key: str, where: str) -> Any:  # Any: JSON holds anything
    if isinstance(place, dict):
        return key
    if not isinstance(place, list):
        raise ConfigError(f"{where} has no keys of its own.")
    names = [item.get("name") if isinstance(item, dict) else None for item in place]
    if key in names:
        return names.index(key)
    if key.isdecimal() and int(key) < len(place):
        return int(key)
    known = [name for name in names if name] or [str(idx) for idx in range(len(place))]
    raise ConfigError(f"{where} has none named '{key}'. {suggest(key, known)}")


def _parse(text: str) -> Any:  # Any: JSON holds anything
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
