"""How a task of sources/*.yaml is read: its splits, and what each format's reader has."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Protocol

from pydantic import Field, PlainValidator, model_validator

from nlp_core.config.base import ClosedModel, Count, FileName, parse_config
from nlp_core.errors import ConfigError
from nlp_core.kinds import Kind
from nlp_core.registry import Registry

ColumnName = Annotated[str, Field(min_length=1, pattern=r"^[^\t\n]+$")]
EntityScheme = Literal["IOB1", "BIO", "BIOES", "BILOU"]
"""How tags write entities; see nlp_core/data/tagging_scheme.py."""


def check_patterns(where: Mapping[str, str]) -> None:
    for column, pattern in where.items():
        try:
            re.compile(pattern)
        except re.error as err:
            raise ValueError(
                f"where.{column}: found {pattern!r}, no regular expression ({err})."
            ) from err


class SplitConfig(ClosedModel):
    file: FileName
    """Member that holds it."""
    tags_file: FileName | None = None
    """Member with the tags of each line; reader parallel only."""
    label_file: FileName | None = None
    """Member with the label of each line; reader parallel only."""
    rows: Count
    """Official number of examples; any other number is an error."""
    columns: list[str] | None = None
    """Names of the columns of a file without a header line; null: the first line names them."""
    labelled: bool = True
    further_files: list[FileName] = Field(default_factory=list)
    """Members whose rows follow those of `file`."""
    where: dict[ColumnName, str] = Field(default_factory=dict)
    """Regular expressions that whole values of a row match, by column or key; the rows of a file
    that match are the split. Readers tsv and jsonl only."""

    @model_validator(mode="after")
    def _check_patterns(self) -> "SplitConfig":
        check_patterns(self.where)
        return self

    @property
    def files(self) -> list[FileName]:
        """The members with its rows, in their order."""
        return [self.file, *self.further_files]

    @property
    def side_files(self) -> list[FileName]:
        return [name for name in (self.tags_file, self.label_file) if name]


class ReadTask(Protocol):
    """What a reader may ask of its task, the section `task` of a source."""

    @property
    def kind(self) -> Kind: ...
    @property
    def tokens(self) -> str: ...
    @property
    def labels(self) -> list[str]: ...
    @property
    def slots(self) -> list[str] | None: ...
    @property
    def scheme(self) -> str | None: ...
    @property
    def splits(self) -> Mapping[str, SplitConfig]: ...


class ColumnPlaces(NamedTuple):
    """Where a column file has token and tag, by the names of columns without names.

    Attributes:
        scheme: of the tags.
        features: column of each symbol.
    """

    token: str
    tag: str
    scheme: EntityScheme
    features: dict[str, str]


class SourceReader(ClosedModel, ABC):
    """The reader of a format, with its options; a module of nlp_core/data/formats/ registers it."""

    name: str
    needs_side_files: ClassVar[bool] = False
    """Whether a split is in three files."""
    filters: ClassVar[bool] = False
    """Whether a split can be the rows of a file with some values."""

    @classmethod
    @abstractmethod
    def serves(cls, kind: Kind) -> bool:
        """Return whether rows of the format are examples of a kind."""

    @abstractmethod
    def read(self, task: ReadTask, name: str, path: Path) -> Sequence[Any]:
        """Return the rows of the split `name`, see nlp_core/data/readers/example.py.

        Raises:
            DataError: a line is malformed; the line is named.
        """

    def check(self, task: ReadTask) -> None:
        """Raise ValueError if the options do not fit the task."""

    def list_members(self) -> list[str]:
        """Return the members that are read with those of the splits."""
        return []

    def fit(self, row: Any) -> Any | None:  # Any: a row of the format
        """Return a row of train as it is learnt from; None if it teaches nothing."""
        return row

    def count(self, rows: Sequence[Any]) -> int:
        """Return what the official number of a split counts: its rows, or its questions."""
        return len(rows)

    def place_columns(self) -> ColumnPlaces | None:
        """Return where column files of the format have what; None: it has no such files."""
        return None


READERS: Registry[type[SourceReader]] = Registry("reader", package="nlp_core.data.formats")


def _parse_reader(value: object) -> SourceReader:
    if isinstance(value, SourceReader):
        return value
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        raise ValueError(f"found {value!r:.200}, expected a section with the key 'name'.")
    try:
        return parse_config(value, READERS.get(value["name"]), where=value["name"])
    except ConfigError as err:
        raise ValueError(str(err)) from err


ReaderField = Annotated[SourceReader, PlainValidator(_parse_reader)]
"""A reader with its options; files hold a mapping with its name."""
