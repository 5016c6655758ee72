"""A bundle's manifest, and the check that its files are complete."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FORMAT = 1
"""Version of the manifest that this runtime reads and that an export writes."""
MANIFEST = "bundle.json"
CALIBRATION = "calibration"
"""The key of a manifest that only bundles with a fitted confidence have."""
PROGRAM = "program"
"""The variant that only torch can run."""


class BundleError(Exception):
    """A bundle is incomplete, or an example is not what it reads."""


@dataclass(frozen=True)
class Manifest:
    """The content of bundle.json.

    Attributes:
        tokenizer: `name`, `substitutions` (of the tokenizer `words`) and `max_tokens`.
        texts: columns of texts that the model reads: text, or text_a and text_b.
        inputs: of the graph, each with its `name`, its `source` and that source's options.
        heads: each with its `output`, `decoding`, `target` and `labels`; of an ensemble also with
            its `members`, whose outputs are averaged by `combination` before they are decoded.
        graph: file of the graph.
        calibration: how the confidence was fitted, with `abstain_below` and perhaps `out_of_scope`;
            None: it was not.
    """

    kind: str
    variant: str
    tokenizer: dict[str, Any]  # Any: JSON
    texts: list[str]
    inputs: list[dict[str, Any]]
    heads: list[dict[str, Any]]
    graph: str
    calibration: dict[str, Any] | None = None


def read_manifest(folder: Path) -> Manifest:
    """Read a bundle's manifest and compare every file with its digest.

    Raises:
        BundleError: the folder holds no bundle, one of another format, or an incomplete one.
    """
    path = folder / MANIFEST
    try:
        note = json.loads(path.read_text(encoding="utf-8"))
    except OSError as err:
        raise BundleError(
            f"{path}: no such file, so '{folder}' holds no bundle or an incomplete one; "
            "name a folder that `reglue export` wrote."
        ) from err
    except ValueError as err:
        raise BundleError(f"{path}: found no JSON ({err}); copy or export it again.") from err
    found = note.get("format") if isinstance(note, dict) else None
    if found != FORMAT:
        raise BundleError(
            f"{path}: found format {found!r}, expected {FORMAT}. Use its exporter's runtime, or "
            "export the model again."
        )
    try:
        for name, digest in note["files"].items():
            _check_file(folder / name, digest)
        names = [name for name in Manifest.__dataclass_fields__ if name != CALIBRATION]
        required = {name: note[name] for name in names}
        return Manifest(**required, calibration=note.get(CALIBRATION))
    except KeyError as err:
        raise BundleError(f"{path}: found no {err}; copy or export it again.") from err


def _check_file(path: Path, digest: str) -> None:
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as err:
        raise BundleError(
            f"{path}: no such file, but the manifest lists it; copy the bundle again."
        ) from err
    if found != digest:
        raise BundleError(
            f"{path}: found the sha256 {found}, expected {digest}: the file was changed or not "
            "copied completely."
        )
