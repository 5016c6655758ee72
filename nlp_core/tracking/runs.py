"""What there is to track: every finished cell and encoder, from the files that stages wrote.

Reads artifacts/cells/, results/, runs/, dvc.lock and the grid; writes
nothing and knows nothing of MLflow. Files that are missing leave a gap, no error: it is a view.
"""

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from nlp_core.config.params import GRID, read_params
from nlp_core.files import digest_file, digest_json

log = logging.getLogger(__name__)

Plain = dict[str, Any]  # Any: JSON holds anything


class Point(NamedTuple):
    """A point of a curve."""

    name: str
    step: int
    value: float


@dataclass(frozen=True)
class TrackedSeed:
    """One seed of a cell.

    Attributes:
        metrics: of its evaluation.
        points: curves of training and validation.
        tags: digests, host, versions.
        started: seconds since 1970; None without a run file.
        seconds: duration; None without a run file.
    """

    seed: int
    metrics: dict[str, float]
    points: list[Point]
    tags: dict[str, str]
    started: float | None
    seconds: float | None


@dataclass(frozen=True)
class TrackedCell:
    """A cell with its seeds.

    Attributes:
        params: model, data, recipe, all flat.
        metrics: mean and spread over the seeds.
        tags: digests of its files and of its dependencies.
    """

    table: str
    cell: str
    params: dict[str, str]
    metrics: dict[str, float]
    tags: dict[str, str]
    seeds: list[TrackedSeed]

    @property
    def key(self) -> str:
        """Digest of all fields."""
        return digest_json(asdict(self))


def collect_cells(root: Path) -> Iterator[TrackedCell]:
    """Yield every finished cell that was trained or pretrained, in the order of its path."""
    lock = _read_lock(root / "dvc.lock")
    params = read_params(root / "params.yaml")
    for path in sorted(root.glob("artifacts/cells/*/*/cell.json")):
        note = _read_json(path)
        if "bundles" in note:
            continue  # an export: it is no run
        is_encoder = "metrics" in note
        sort = "encoders" if is_encoder else "recipes"
        stage = lock.get(f"{'pretrain' if is_encoder else 'finetune'}@{note['cell']}", {})
        recorded = stage.get("params", {}).get(f"{GRID}/{note['table']}.yaml", {})
        recipe = recorded.get(f"{sort}.{note['recipe']}")
        known = getattr(params, sort)
        if recipe is None and note["recipe"] in known:
            recipe = known[note["recipe"]].model_dump(mode="json")
        results = _read_json(root / "results" / f"{note['table']}.json").get("cells", {})
        result = results.get(note["cell"])
        if is_encoder:
            scores = {k: {"mean": v, "sd": 0.0, "values": [v]} for k, v in note["metrics"].items()}
            result = {"metrics": scores, "seeds": note["seeds"]}
        yield _build_cell(root, path.parent, note, stage=stage, recipe=recipe or {}, result=result)


def flatten(values: Mapping[str, Any], prefix: str) -> dict[str, str]:  # Any: JSON holds anything
    """Return nested mappings as one, with keys joined by dots and values as text."""
    flat: dict[str, str] = {}
    for key, value in values.items():
        name = f"{prefix}.{key}"
        if isinstance(value, Mapping):
            flat |= flatten(value, name)
        elif value is not None:
            flat[name] = str(value)
    return flat


def _build_cell(
    root: Path, folder: Path, note: Plain, *, stage: Plain, recipe: Plain, result: Plain | None
) -> TrackedCell:
    found = result["metrics"] if result else {}
    measured = result["seeds"] if result else []
    values = {
        seed: {key: score["values"][idx] for key, score in found.items()}
        for idx, seed in enumerate(measured)
    }
    # means over other seeds are from an earlier training of the cell
    scores = found if measured == note["seeds"] else {}
    seeds = [
        _build_seed(root, folder, note, seed=seed, values=values.get(seed, {}))
        for seed in note["seeds"]
    ]
    return TrackedCell(
        table=note["table"],
        cell=note["cell"],
        params={
            "model": note["model"],
            "recipe": note["recipe"],
            "seeds": ", ".join(map(str, note["seeds"])),
            "numerics": str(note["numerics"]),
            **flatten(note["parameters"], "parameters"),
            **flatten(note["data"], "data"),
            **flatten(note["init"] or {}, "init"),
            **flatten(recipe, "recipe"),
        },
        metrics={
            name: value
            for key, score in scores.items()
            for name, value in ((key, score["mean"]), (f"{key}.sd", score["sd"]))
        },
        tags={
            "cell.sha256": digest_file(folder / "cell.json"),
            **flatten(note["fingerprint"], "fingerprint"),
            **_list_digests(stage),
        },
        seeds=seeds,
    )


def _build_seed(
    root: Path, folder: Path, note: Plain, *, seed: int, values: dict[str, float]
) -> TrackedSeed:
    is_encoder = "metrics" in note  # whose weights and history are in the cell's own folder
    history = (folder if is_encoder else folder / f"seed-{seed}") / "history.jsonl"
    run = _read_json(root / "runs" / note["table"] / note["cell"] / f"seed-{seed}.json")
    started, seconds = run.pop("started", None), run.pop("seconds", None)
    outcome = note["runs"][str(seed)]
    tags = {"weights": outcome["weights"], **flatten(outcome["epochs"], "epoch")}
    if history.exists():
        tags["history.sha256"] = digest_file(history)
    return TrackedSeed(
        seed=seed,
        metrics=values,
        points=_read_history(history),
        tags=tags | flatten(run, "run"),
        started=started,
        seconds=seconds,
    )


def _read_history(path: Path) -> list[Point]:
    if not path.exists():
        return []
    points = []
    for line in path.read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        points += [
            Point(name, event.get("step", 0), value) for name, value in _list_values(event).items()
        ]
    return points


def _list_values(event: Plain) -> dict[str, float]:
    """Return the values of a line of a history, by the names of their curves."""
    match event["event"]:
        case "train":
            return {f"train/{key}": event[key] for key in ("loss", "lr") if key in event}
        case "validate":
            place = "/".join(event[key] for key in ("task", "split") if key in event)
            values = sorted(event["metrics"].items())
            return {f"validate/{place}/{key}": value for key, value in values}
        case _:
            return {}


def _list_digests(stage: Plain) -> dict[str, str]:
    """Return DVC's digests of a stage's dependencies and outputs."""
    return {
        f"dvc.{sort}.{item['path']}": item["md5"]
        for sort in ("deps", "outs")
        for item in stage.get(sort, [])
        if "md5" in item
    }


def _read_lock(path: Path) -> dict[str, Plain]:
    if not path.exists():
        log.warning("track: no %s: runs will have no digests of DVC", path)
        return {}
    lock = yaml.safe_load(path.read_text(encoding="utf-8"))
    return lock.get("stages") or {}


def _read_json(path: Path) -> Plain:
    if not path.exists():
        return {}
    value: Plain = json.loads(path.read_text(encoding="utf-8"))
    return value
