"""The errors a user can cause: one clear paragraph each, shown without a traceback, exit code 2."""

import difflib
from collections.abc import Iterable


class NlpCoreError(Exception):
    """Say where a mistake is, what was found, what was expected and what to do."""


class ConfigError(NlpCoreError):
    """A file that a person writes (params.yaml, sources/, zoo/, published/) is wrong."""


class DataError(NlpCoreError):
    """A data file is missing, malformed or not the one that was expected."""


class DownloadError(NlpCoreError):
    """A source cannot be fetched, or what came is not what its digest promises."""


class TrainingError(NlpCoreError):
    """A run cannot go on: a loss that is not finite, a work folder in use."""


class ExportError(NlpCoreError):
    """An exported model is not what the trained one is, or what was asked for."""


def suggest(name: str, allowed: Iterable[str]) -> str:
    """Return the end of an error message: the nearest allowed name, or all of them.

    Args:
        name: what was found.
        allowed: every name that would have been right.
    """
    names = sorted(allowed)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if near:
        return f"Did you mean '{near[0]}'?"
    return f"Allowed: {', '.join(names)}." if names else "Nothing is allowed here."
