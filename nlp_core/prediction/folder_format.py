"""The format of run.json, the description of a trained folder, and upgrades of older ones."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nlp_core.errors import DataError

log = logging.getLogger(__name__)

Note = dict[str, Any]  # Any: JSON holds anything


def _add_digests(note: Note) -> Note:
    """Format 1 may lack the digests of the folder's files, which are then not checked."""
    return {"digests": {}, **note}


UPGRADES: dict[int, Callable[[Note], Note]] = {1: _add_digests}
"""For each older format what makes it the next one."""
FORMAT_VERSION = 1 + len(UPGRADES)


def upgrade_note(note: Note, path: Path) -> Note:
    """Return the content of a run.json in today's format; the file stays as it is.

    Raises:
        DataError: it has no format, one that this version does not know, or no plugins.
    """
    found = note.get("format")
    if not isinstance(found, int) or not 1 <= found <= FORMAT_VERSION or "plugins" not in note:
        raise DataError(
            f"{path}: found the format {found}, expected 1 to {FORMAT_VERSION} and a list of "
            "plugins; train the model again with this version, or use the version that it was "
            "trained with."
        )
    for version in range(found, FORMAT_VERSION):
        note = UPGRADES[version](note) | {"format": version + 1}
        log.info("%s: read format=%d as format=%d", path, version, version + 1)
    return note
