"""The history of a training: a line of JSON for each event. Reading it needs no torch."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nlp_core.config.base import HISTORY
from nlp_core.config.pretraining import AFTER
from nlp_core.errors import DataError

Event = Mapping[str, Any]  # Any: JSON holds anything


def read_history(folder: Path) -> list[Event]:
    """Read the history of a trained seed or of a pretrained encoder.

    Raises:
        DataError: the file is missing or damaged.
    """
    path = folder / HISTORY
    remedy = "train the cell again"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        events = [json.loads(line) for line in lines]
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file; {remedy}.") from error
    except ValueError as error:
        raise DataError(f"{path}: the file is damaged: {error}; {remedy}.") from error
    if any(not isinstance(event, dict) or "event" not in event for event in events):
        raise DataError(
            f"{path}: the file is damaged: found a line that is not an event; {remedy}."
        )
    return events


def list_values(event: Event) -> dict[str, float]:
    """Return the values of an event, by the names of their curves."""
    match event["event"]:
        case "train":
            return {f"train/{key}": event[key] for key in ("loss", "lr") if key in event}
        case "validate":
            place = "/".join(event[key] for key in ("task", "split") if key in event)
            values = sorted(event["metrics"].items())
            return {f"validate/{place}/{key}": value for key, value in values}
        case _:
            return {}


def summarise_history(events: Sequence[Event]) -> dict[str, float]:
    """Return what the table shows: the metrics of each text, before and after.

    `wikitext2.perplexity` is the end, `before.wikitext2.perplexity` the encoder as it began.
    """
    return {
        ("" if event["at"] == AFTER else f"{event['at']}.") + f"{event['split']}.{name}": value
        for event in events
        if event["event"] == "measure"
        for name, value in event["metrics"].items()
    }
