"""The entities of an RO-Crate: JSON-LD objects by their id, and the files that it contains."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from nlp_core.errors import ConfigError
from nlp_core.files import digest_file

FORMATS = {
    ".json": "application/json",
    ".md": "text/markdown",
    ".parquet": "application/vnd.apache.parquet",
    ".svg": "image/svg+xml",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}
Entity = dict[str, Any]  # Any: JSON-LD holds texts, numbers, references and lists of these


class CrateGraph:
    """What a crate describes while it is built.

    Attributes:
        entities: by id, in the order in which they were added.
        files: paths of the project that go into the crate.
        examples: the files of each parameter of the workflow, by the parameter's id.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self.entities: dict[str, Entity] = {}
        self.files: list[str] = []
        self.examples: dict[str, list[Entity]] = {}

    def add(self, place: str, sort: str | list[str], **values: object) -> Entity:
        """Add an entity and return a reference to it."""
        self.entities[place] = {"@id": place, "@type": sort, **compact(values)}
        return {"@id": place}

    def add_file(self, path: str, name: str, *more_types: str, **values: object) -> Entity:
        """Add a file of the project, which goes into the crate under the same path."""
        source = require_file(self._root, path)
        if path not in self.files:
            self.files.append(path)
        sort = ["File", *more_types] if more_types else "File"
        return self.add(
            path,
            sort,
            name=name,
            encodingFormat=FORMATS.get(source.suffix, "text/plain"),
            contentSize=str(source.stat().st_size),
            sha256=digest_file(source),
            **values,
        )

    def add_parameter(self, name: str, sort: str, text: str, files: Iterable[Entity]) -> Entity:
        """Add a parameter of the workflow, and say so in its files."""
        examples = self.examples[f"#{sort}-{name}"] = [*files]
        profile = {"@id": "https://bioschemas.org/profiles/FormalParameter/1.0-RELEASE"}
        reference = self.add(
            f"#{sort}-{name}",
            "FormalParameter",
            name=name,
            description=text,
            additionalType="File",
            conformsTo=profile,
            workExample=examples,
        )
        for example in examples:
            self.entities[example["@id"]]["exampleOfWork"] = reference
        return reference

    def add_value(self, place: str, name: str, value: str | float) -> Entity:
        return self.add(place, "PropertyValue", name=name, propertyID=name, value=value)


def compact(values: Mapping[str, Any]) -> Entity:
    """Return values without those that are None or empty, and lists of one item as the item."""
    kept = {key: value for key, value in values.items() if value not in (None, [])}
    return {
        key: value[0] if isinstance(value, list) and len(value) == 1 else value
        for key, value in kept.items()
    }


def require_file(root: Path, path: str) -> Path:
    if not (root / path).is_file():
        raise ConfigError(
            f"{root / path}: there is no such file, which a crate contains; run the command in the "
            "root of a project with it."
        )
    return root / path


def slug(text: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in text.lower())
