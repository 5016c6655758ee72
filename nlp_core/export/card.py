"""The model card of a bundle, README.md: what it predicts, from what it was trained, how well.

It holds neither a path of the machine nor a time, so a second export writes the same bytes.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nlp_core.config.base import CELL, SEED, name_folder, read_mapping
from nlp_core.config.dataset import read_dataset
from nlp_core.config.export import Variant
from nlp_core.export.parity import Parity
from nlp_core.kinds import OUTPUT
from nlp_core.prediction.trained_folder import RUN
from nlp_core.prediction.trained_model import TrainedModel

README = "README.md"
Note = Mapping[str, Any]  # Any: JSON


def format_card(
    trained: TrainedModel,
    variant: Variant,
    *,
    parity: Parity,
    scores: Mapping[str, float],
    max_drop: float | None,
) -> str:
    """Return the card; `scores` are the trained model's, by metric, on all examples."""
    is_cell = trained.data is None
    path = trained.folder.parent / CELL if is_cell else trained.folder / RUN
    note = read_mapping(path) if path.is_file() else {}  # {}: an encoder that comes from elsewhere
    command = _name_command(trained, note, variant, max_drop)
    sections = {
        "": [f"{trained.kind_name} model, exported by Reglue as {variant}."],
        "Model": _list_facts(trained, note),
        "Training data": _list_cell_data(note) if is_cell else _list_files(trained, note),
        "Scores": _list_scores(trained, variant, parity, scores),
        "Limits": _list_limits(trained),
        "Made by": [f"`{command}`"],
    }
    parts = [f"# {trained.name}"]
    for title, lines in sections.items():
        parts += [f"## {title}", "\n".join(f"- {line}" for line in lines)] if title else lines
    return "\n\n".join(parts) + "\n"


def _list_facts(trained: TrainedModel, note: Note) -> Iterator[str]:
    if trained.layer is None:
        yield f"task: {trained.task.name}, of the kind {trained.task.kind.name}"
    else:
        yield f"layer: {trained.layer}, with all layers below it"
    yield f"reads: {', '.join(dict.fromkeys(trained.featurizer.plan.inputs.values()))}"
    for target, labels in trained.featurizer.targets.items():
        named = f"{len(labels)} words and copies" if target == OUTPUT else ", ".join(labels)
        own = "a number or a text" if trained.layer is None else "a vector"
        yield f"predicts {target}: {named or own}"
    yield f"weights: {sum(item.numel() for item in trained.model.parameters()):,} numbers"
    if trained.data is None:
        yield f"graph: {note['model']}, recipe: {note['recipe']} ({note['recipe_digest'][:16]})"


def _list_cell_data(note: Note) -> Iterator[str]:
    members = (one for own in note.get("members", {}).values() for one in own)
    starts = [note["init"]] if note["init"] else [member["init"] for member in members]
    read = note["data"] | {Path(start["path"]).name: start["sha256"] for start in starts}
    for name, digest in read.items():
        is_known = Path(f"sources/{name}.yaml").is_file()  # a taught task or a cell is not a source
        licence = f"; licence: {read_dataset(name).licence}" if is_known else ""
        yield f"{name}, {digest}{licence}"


def _list_files(trained: TrainedModel, note: Note) -> Iterator[str]:
    if not note:
        yield (
            f"that of the encoder with the weights sha256:{trained.digest_weights()}; licence: "
            "unknown"
        )
        return
    for name, digest in note["files"].items():
        yield f"the user's file for {name}, sha256:{digest}; licence: unknown"


def _list_scores(
    trained: TrainedModel, variant: Variant, parity: Parity, scores: Mapping[str, float]
) -> Iterator[str]:
    split = "on the file of --data"
    if trained.data is None:
        split = f"on the split {trained.task.report_split}"
    for name, score in scores.items():
        yield f"{name} {split}: {score:.2f} (the trained model)"
    if parity.exported is not None:
        yield f"{parity.metric} {split}: {parity.exported:.2f} ({variant})"
    yield (
        f"equal predictions of both: {parity.same_labels} of {parity.examples} examples, "
        f"scores within {parity.describe()['max_difference']:g}"
    )


def _list_limits(trained: TrainedModel) -> Iterator[str]:
    yield "The scores hold for texts like those above."
    if trained.calibration is None:
        yield "Probabilities are not calibrated."
    if trained.max_tokens is not None:
        yield f"Only the first {trained.max_tokens} tokens of a text are read."
    yield from (f"Data that is not the official release: {note}" for note in trained.task.footnotes)


def _name_command(
    trained: TrainedModel, note: Note, variant: Variant, max_drop: float | None
) -> str:
    words = ["reglue export"]
    if trained.data is None:
        seed = trained.folder.name.removeprefix(SEED)
        words += [name_folder(note["table"], note["cell"]), f"--seed {seed}"]
        if len(note["tasks"]) > 1:
            words.append(f"--task {trained.task.name}")
    else:
        words += [trained.name, "--data FILE"]
    if trained.layer is not None:
        words.append(f"--layer {trained.layer}")
    words += ["--to FOLDER", f"--variant {variant}"]
    if max_drop is not None:
        words.append(f"--max-drop {max_drop:g}")
    return " ".join(words)
