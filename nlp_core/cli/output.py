"""Where commands write what they were asked to write."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from nlp_core.errors import DataError
from nlp_core.files import replacing


@contextmanager
def writing(path: Path) -> Iterator[TextIO]:
    """Open a file that takes the name `path` when all was written, and vanishes otherwise.

    Text is UTF-8 and line ends stay as they come.

    Raises:
        DataError: the path is a folder, or the file system refuses it.
    """
    if path.is_dir():
        raise DataError(f"{path}: found a folder, expected the name of a file to write.")
    try:
        with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as out:
            yield out
    except OSError as err:
        raise DataError(f"{path}: cannot be written: {err.strerror}; name another file.") from err
