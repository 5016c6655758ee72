"""Who wrote the project, which version and under which licence: CITATION.cff."""

from pathlib import Path
from typing import Any, NamedTuple

from nlp_core.config.base import read_mapping
from nlp_core.errors import ConfigError


class Citation(NamedTuple):
    """What other files repeat of CITATION.cff; `url` is where the code is, if it says so."""

    authors: str
    version: str
    licence: str
    url: str | None


def read_citation(path: Path) -> Citation:
    """Read a citation file.

    Raises:
        ConfigError: a key is missing, or the authors have no names.

    Source: the Citation File Format 1.2.0, https://citation-file-format.github.io.
    """
    found = read_mapping(path)
    for key in ("authors", "version", "license"):
        if key not in found:
            raise ConfigError(f"{path.name}: {key}: found none, expected one; add it.")
    authors = _name_authors(found["authors"], path)
    url = found.get("repository-code") or found.get("url")
    return Citation(authors, str(found["version"]), str(found["license"]), url)


def _name_authors(authors: Any, path: Path) -> str:  # Any: YAML
    keys = ("given-names", "family-names")
    names = [
        str(item.get("name") or "") or " ".join(str(item[key]) for key in keys if key in item)
        for item in (authors if isinstance(authors, list) else [])
        if isinstance(item, dict)
    ]
    if not names or len(names) != len(authors) or not all(names):
        wanted = "a list, each with a name or with given-names and family-names"
        raise ConfigError(f"{path.name}: authors: expected {wanted}; mend it.")
    return ", ".join(names)
