"""A folder for what can be made again: encoded files and converted vectors, by their content."""

import os
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from nlp_core.files import check_writable, replacing_folder

VARIABLE = "REGLUE_CACHE"


def find_cache() -> Path:
    """Return $REGLUE_CACHE, or the folder `reglue` of the user's cache."""
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "reglue"


def keep(sort: str, key: str, make: Callable[[Path], None]) -> Path:
    """Return a folder of the cache; if it is missing, `make` writes its content.

    `sort` names a folder; `key` is the digest of all that the content depends on. Of processes
    that need the same one, the first makes it and the others wait: a second one in its place would
    take the files from whoever reads them.
    """
    folder = find_cache() / sort / key
    if folder.is_dir():
        return folder
    lock = find_cache() / "locks" / key
    check_writable(lock, VARIABLE)
    lock.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(lock):
        if not folder.is_dir():
            with replacing_folder(folder) as temporary:
                make(temporary)
    return folder
