"""A folder for what can be made again: encoded files and converted vectors, by their content."""

import os
from collections.abc import Callable
from pathlib import Path

from nlp_core.files import replacing_folder

VARIABLE = "REGLUE_CACHE"


def find_cache() -> Path:
    """Return $REGLUE_CACHE, or the folder `reglue` of the user's cache."""
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "reglue"


def keep(sort: str, key: str, make: Callable[[Path], None]) -> Path:
    """Return a folder of the cache, made first when it is not there.

    Args:
        sort: what is kept, a name of a folder.
        key: digest of all that the content depends on.
        make: writes the content into an empty folder.
    """
    folder = find_cache() / sort / key
    if not folder.is_dir():
        with replacing_folder(folder) as temporary:
            make(temporary)
    return folder
