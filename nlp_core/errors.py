"""Errors that a user can cause: one paragraph, shown without a traceback, exit code 2."""

import difflib
import errno
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import ClassVar

EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130
EXIT_STOPPED = 75
"""EX_TEMPFAIL of sysexits.h: the same command will go on."""


class NlpCoreError(Exception):
    """A message that says where, what was found, what was expected and what to do.

    Attributes:
        page: of the documentation; the message ends with it.
    """

    page: ClassVar[str] = "docs/command-line.md"

    exit_code = EXIT_USER_ERROR
    label = "error"


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


class TimeLimitError(TrainingError):
    """A run has reached its time limit, and its checkpoint is written."""

    exit_code = EXIT_STOPPED
    label = "stopped"


class ExportError(NlpCoreError):
    """An exported model differs from the trained one, or from the request."""

    page = "docs/export.md"


def plural(number: int, noun: str) -> str:
    """Return a number with its noun: 1 row, 2 rows."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def suggest(name: str, allowed: Iterable[str]) -> str:
    """Return the end of an error message: the nearest allowed name, or all of them."""
    names = sorted(allowed)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if near:
        return f"Did you mean {near[0]!r}?"  # a name from the user's file may hold a line break
    return f"Allowed: {', '.join(names)}." if names else "Nothing is allowed here."


_ORIGINS: dict[str, str] = {}


def note_origin(path: str, origin: str) -> None:
    """Show `origin` in errors for a path that the user does not know, such as one of the cache."""
    _ORIGINS[path] = origin


def show_origins(text: str) -> str:
    """Return a message with the user's names of paths; a file below one is `ORIGIN: FILE`."""
    for path, origin in _ORIGINS.items():
        text = text.replace(f"{path}/", f"{origin}: ").replace(path, origin)
    return text


FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def describe_os_error(error: OSError) -> str:
    """Return which file could not be read or written, why, and what to do if the disk is full."""
    reason = " ".join(str(error.strerror or error).split())
    if error.errno in DENIED and isinstance(error.filename, str):
        return f"{error.filename}: {_describe_denial(error.filename)}"
    text = f"{error.filename or 'a file'}: {reason}."
    if error.errno in FULL or any(os.strerror(code) in reason for code in FULL):
        text += (
            " Make space on the disk and run the same command again; nothing half-written counts."
        )
    return text


def _describe_denial(name: str) -> str:
    folder = os.path.dirname(name) or os.curdir
    is_seen = os.access(folder, os.X_OK)
    if is_seen and (not os.path.lexists(name) or os.access(name, os.R_OK)):
        return "you have no permission to write there; change the permissions or name another."
    return "you have no permission to read it; change the permissions or name another."


@contextmanager
def explain_memory() -> Iterator[None]:
    """Raise NlpCoreError if Python or torch cannot get, or not even count, memory."""
    words = ("can't allocate memory", "out of memory", "verflow when unpacking", "size calculation")
    try:
        yield
    except (MemoryError, RuntimeError, TypeError) as error:  # of torch, which has none of its own
        if not isinstance(error, MemoryError) and not any(word in str(error) for word in words):
            raise
        raise NlpCoreError(
            "the memory of this machine is too small for the model or its batches, expected "
            "smaller ones; lower its sizes, the batch size or the length of texts."
        ) from error


@contextmanager
def exit_on_error() -> Iterator[None]:
    """Turn a user's mistake into a paragraph on standard error and exit code 2.

    Raises:
        SystemExit: with the code of a NlpCoreError, mostly 2, also for a file that cannot be read
            or written, and 130 for an interrupt; other errors are ours and keep their traceback.
    """
    try:
        with explain_memory():
            yield
    except NlpCoreError as error:
        text = " ".join(show_origins(str(error)).split())
        end = "" if text[-1:] in ".?" else "."
        _print_error(f"{error.label}: {text}{end} See {error.page}.")
        raise SystemExit(error.exit_code) from None
    except BrokenPipeError:
        raise
    except OSError as error:
        text = show_origins(describe_os_error(error))
        _print_error(f"error: {text} See {NlpCoreError.page}.")
        raise SystemExit(NlpCoreError.exit_code) from None
    except KeyboardInterrupt:
        _print_error("interrupted")
        raise SystemExit(EXIT_INTERRUPTED) from None


def _print_error(text: str) -> None:
    with suppress(OSError):  # standard error may be a full disk; the exit code still says it
        sys.stderr.write(f"{text}\n")
