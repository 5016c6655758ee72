"""Errors that a user can cause: one paragraph, shown without a traceback, exit code 2."""

import difflib
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import ClassVar

EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130


class NlpCoreError(Exception):
    """A message that says where, what was found, what was expected and what to do.

    Attributes:
        page: of the documentation; the message ends with it.
    """

    page: ClassVar[str] = "docs/command-line.md"


class ConfigError(NlpCoreError):
    """A file that a user writes (params.yaml, sources/, zoo/, published/) is wrong."""

    page = "docs/params.md"


class UsageError(ConfigError):
    """The arguments of a command are wrong."""

    page = "docs/command-line.md"


class DataError(NlpCoreError):
    """A data file is missing, malformed or not the expected one."""

    page = "docs/command-line.md#train-on-your-own-data"


class DownloadError(NlpCoreError):
    """A source cannot be fetched, or its digest is wrong."""

    page = "docs/params.md"


class TrainingError(NlpCoreError):
    """A run cannot continue: a loss is not finite, a work folder is in use."""

    page = "docs/workflow.md#after-a-crash"


class ExportError(NlpCoreError):
    """An exported model differs from the trained one, or from the request."""

    page = "docs/export.md"


def suggest(name: str, allowed: Iterable[str]) -> str:
    """Return the end of an error message: the nearest allowed name, or all of them."""
    names = sorted(allowed)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if near:
        return f"Did you mean {near[0]!r}?"  # a name from the user's file may hold a line break
    return f"Allowed: {', '.join(names)}." if names else "Nothing is allowed here."


@contextmanager
def exit_on_error() -> Iterator[None]:
    """Turn a user's mistake into a paragraph on standard error and exit code 2.

    Raises:
        SystemExit: with 2 for a NlpCoreError, 130 for an interrupt; other errors are ours and keep
            their traceback.
    """
    try:
        yield
    except NlpCoreError as error:
        text = " ".join(str(error).split())
        sys.stderr.write(f"error: {text}{'' if text[-1:] in '.?' else '.'} See {error.page}.\n")
        raise SystemExit(EXIT_USER_ERROR) from None
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        raise SystemExit(EXIT_INTERRUPTED) from None
