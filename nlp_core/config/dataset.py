"""sources/*.yaml: where a source comes from and how it is read as a task."""

from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import Field, PlainSerializer, PlainValidator, model_validator

from nlp_core.config.base import (
    PATH_PART,
    ClosedModel,
    Count,
    FileName,
    Name,
    Part,
    Text,
    Whole,
    check_known,
    read_config,
)
from nlp_core.config.reader import READERS, ReaderField, SplitConfig
from nlp_core.errors import ConfigError, suggest
from nlp_core.kinds import KINDS, SPAN_LABELS, Kind

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
RelativePath = Annotated[str, Field(pattern=rf"^{PATH_PART}(/{PATH_PART})*$")]
TRAIN, HELD_OUT = "train", "held_out"
Searched = Literal["split", "all"]
"""Which passages the queries of a split are searched in: those of the split, or of all splits."""


def _find_kind(value: object) -> Kind:
    if isinstance(value, Kind):
        return value
    names = [name for name in KINDS.names() if not KINDS.get(name).is_auxiliary]
    if value not in names:
        raise ValueError(f"found {value!r}. {suggest(str(value), names)}")
    return KINDS.get(str(value))


KindField = Annotated[Kind, PlainValidator(_find_kind), PlainSerializer(str, return_type=str)]
"""A kind of task; files hold its name."""


class DigestConfig(ClosedModel):
    digest: Sha256
    label: str | None = None
    """What the bytes are if not the official release; shown in footnotes."""


class MemberConfig(ClosedModel):
    """A file wanted from an archive."""

    path: RelativePath
    """Path inside the archive; for xz the name of the unpacked file."""
    save_as: FileName | None = None
    """Name below data/raw/<source>/; null: the last part of `path`."""
    sha256: list[DigestConfig] = Field(default_factory=list)
    """Accepted digests; empty: that of the archive is enough."""

    @property
    def name(self) -> str:
        return self.save_as or PurePosixPath(self.path).name


class PackageConfig(ClosedModel):
    """A pinned package whose wheel is the file."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    version: Annotated[str, Field(pattern=r"^[0-9][A-Za-z0-9.]*$")]


class FileConfig(ClosedModel):
    """A file to fetch. Of two files with the same member the first available one is used."""

    name: FileName
    """File name in the official release."""
    mirror: RelativePath
    """Path below $REGLUE_MIRROR."""
    url: Annotated[str, Field(pattern=r"^https?://\S+$")] | None = None
    """Official address."""
    package: PackageConfig | None = None
    bytes: Count | None = None
    """Size of the download, for `reglue plan`; null: not known."""
    unpack: Literal["none", "zip", "xz"] = "none"
    """Kind of archive; a wheel is a zip."""
    sha256: list[DigestConfig] = Field(default_factory=list)
    """Accepted digests of the file, required if a member has none."""
    members: list[MemberConfig] = Field(default_factory=list)
    digest_note: str | None = None
    """What to know about digests that are not pinned here; error messages end with it. A file
    without any digest needs it, and is kept only once its digest is added."""

    @property
    def wanted(self) -> list[MemberConfig]:
        """The members; a plain file is its only member."""
        if self.unpack == "none":
            return [MemberConfig(path=self.name, sha256=self.sha256)]
        return self.members

    @model_validator(mode="after")
    def _check_members(self) -> "FileConfig":
        if (self.unpack == "none") == bool(self.members):
            raise ValueError(
                f"found {len(self.members)} members with unpack: {self.unpack}; an archive "
                "needs members, a plain file has none."
            )
        if self.unpack == "xz" and len(self.members) != 1:
            raise ValueError("found several members; an xz file holds one.")
        bare = [item.path for item in self.wanted if not (item.sha256 or self.sha256)]
        if bare and not self.digest_note:
            raise ValueError(
                f"found no digest for {bare[0]}; add sha256 to it or to its archive, or say in "
                "digest_note that none is known."
            )
        return self


class GeneratorConfig(ClosedModel):
    """A seeded generator of ours that writes the members instead of a download."""

    name: Literal[
        "sample_sentence",
        "sample_ner",
        "sample_answer",
        "sample_trees",
        "sample_commands",
        "sample_dialogues",
        "sample_documents",
        "sample_vectors",
        "sample_languages",
    ]
    """A function of nlp_core/data/sample.py or of a file of nlp_core/data/generators/."""
    seed: Whole
    sizes: dict[FileName, Count]
    """Sentences, questions, documents or dimensions of each member."""
    sha256: dict[FileName, Sha256]

    @model_validator(mode="after")
    def _check_names(self) -> "GeneratorConfig":
        if sorted(self.sizes) != sorted(self.sha256):
            raise ValueError(
                f"found sizes of {sorted(self.sizes)} and sha256 of {sorted(self.sha256)}; "
                "expected the same members."
            )
        return self


class HeldOutConfig(ClosedModel):
    """The part of train that selects the epoch when the task reports on dev."""

    share: Part
    """Share of the train rows (of the sentences, by phrase_root)."""
    seed: Whole
    by: Literal["row", "text_a", "text_b", "phrase_root", "article", "paragraph"]
    """What stays together: a row, all rows with the same first text or (retrieval only) second
    text, all phrases of a sentence, or (span only) all questions on an article or paragraph."""


class TaskConfig(ClosedModel):
    """How a source is read as examples of one kind."""

    kind: KindField
    reader: ReaderField
    tokens: Annotated[
        str,
        Field(
            pattern=r"^((nfc|nfkc|width)\+)*(spaces|characters|"
            r"((plain_|unicode_|chinese_|japanese_)?words))$"
        ),
    ]
    """Tokenizer: split at spaces; Penn Treebank words; substrings that are words, numbers and
    signs (plain_words; unicode_words keeps vowel signs with their letters, and characters also cuts
    Chinese and Japanese); or the words of Chinese (library jieba) or Japanese (fugashi). Steps
    before it normalise the text, as in nfkc+words: nfc, nfkc, or width (full-width letters,
    half-width katakana). The kind span needs substrings of the text, so neither words nor steps."""
    labels: list[str]
    """All labels, sorted; entity types for tagging; IN:INTENT and SL:SLOT for parsing; for span
    `answerable`, and `unanswerable` if there are such questions; empty if nothing is labelled."""
    slots: list[str] | None = None
    """All slot types, sorted; only for intent_slots and dialogue, whose labels are intents."""
    max_words: Count | None = None
    """generation: how many words, the most frequent ones of train, can be written, not copied."""
    label_range: Annotated[list[float], Field(min_length=2, max_length=2)] | None = None
    """Lowest and highest value of a regression label."""
    scheme: Literal["BIO", "BIOES"] | None = None
    """Tagging scheme of the examples; tagging, intent_slots and dialogue only."""
    metrics: Annotated[list[str], Field(min_length=1)]
    """The first metric selects the epoch."""
    splits: Annotated[dict[Name, SplitConfig], Field(min_length=1)]
    select_split: Name | None
    """Split that selects the epoch; null: the source has only a test set."""
    report_split: Name | None
    further_report_splits: list[Name] = Field(default_factory=list)
    """Splits that a table reports in addition, such as the mismatched one of MNLI."""
    held_out: HeldOutConfig | None = None
    searched: Searched | None = None
    """retrieval: the passages that a query is searched in, of its `split`, or of `all` splits."""

    @model_validator(mode="after")
    def _check_labels(self) -> "TaskConfig":
        kind = self.kind
        has_labels = kind.has_classes and not kind.writes_text
        if has_labels != bool(self.labels) or kind.is_number != bool(self.label_range):
            raise ValueError(
                f"found {len(self.labels)} labels and label_range {self.label_range} with kind "
                f"{self.kind}; regression needs label_range, language_model and generation "
                "neither, every other kind labels."
            )
        if kind.writes_text != (self.max_words is not None):
            raise ValueError(
                f"max_words: found {self.max_words} with {kind}; only generation has and needs it."
            )
        for names in (self.labels, self.slots or []):
            if names != sorted(set(names)):
                raise ValueError(f"found labels {names}; expected them sorted, each once.")
        if kind.has_tags != (self.scheme is not None):
            raise ValueError(
                f"found scheme {self.scheme} with kind {self.kind}; tagging and intent_slots need "
                "one, no other kind has it."
            )
        if kind.is_searched != (self.searched is not None):
            raise ValueError(
                f"searched: found {self.searched} with kind {self.kind}; retrieval needs it, no "
                "other kind has it."
            )
        if kind.has_passages and self.labels not in (SPAN_LABELS[:1], SPAN_LABELS):
            raise ValueError(
                f"found labels {self.labels} with kind span; expected {SPAN_LABELS[:1]}, or "
                f"{SPAN_LABELS} where some questions have no answer."
            )
        if (kind.has_label and kind.has_tags) != bool(self.slots):
            raise ValueError(
                f"found {len(self.slots or [])} slots with kind {self.kind}; intent_slots needs "
                "them, no other kind has them."
            )
        return self

    @model_validator(mode="after")
    def _check_splits(self) -> "TaskConfig":
        known = [*self.splits, *([HELD_OUT] if self.held_out else [])]
        if HELD_OUT in self.splits or (self.held_out and "train" not in self.splits):
            raise ValueError("held_out is cut out of train; it cannot be one of splits.")
        reported = [self.report_split, *self.further_report_splits]
        check_known("select_split", "split", self.select_split, known)
        check_known("report_split", "split", self.report_split, known)
        for split in self.further_report_splits:
            check_known("further_report_splits", "split", split, known)
        if len({*reported}) < len(reported):
            raise ValueError(f"further_report_splits: found a split twice among {reported}.")
        if (self.select_split == HELD_OUT) != (self.held_out is not None):
            raise ValueError("found held_out or select_split: held_out, expected both or none.")
        if self.held_out and self.held_out.by not in self.kind.cuts:
            raise ValueError(
                f"held_out.by: found {self.held_out.by} with kind {self.kind}, expected "
                f"{' or '.join(self.kind.cuts)}."
            )
        return self

    @model_validator(mode="after")
    def _check_reader(self) -> "TaskConfig":
        known = [name for name in READERS.names() if READERS.get(name).serves(self.kind)]
        if self.reader.name not in known:
            raise ValueError(
                f"found the reader {self.reader.name} with kind {self.kind}, expected "
                f"{' or '.join(known)}."
            )
        if self.kind.has_passages and (self.tokens == "words" or "+" in self.tokens):
            raise ValueError(
                f"tokens: found {self.tokens} with kind span, whose tokens must be substrings of "
                "the text; expected plain_words or spaces, without steps."
            )
        self.reader.check(self)
        needed = 2 if self.reader.needs_side_files else 0
        for name, split in self.splits.items():
            if len(split.side_files) != needed:
                raise ValueError(
                    f"splits.{name}: found {len(split.side_files)} of tags_file and label_file, "
                    f"expected {needed} with the reader {self.reader.name}."
                )
            if split.where and not self.reader.filters:
                raise ValueError(
                    f"splits.{name}.where: found with the reader {self.reader.name}, expected tsv "
                    "or jsonl."
                )
            if split.further_files and (needed or self.kind.is_grouped):
                raise ValueError(
                    f"splits.{name}.further_files: found with {self.reader.name} and the kind "
                    f"{self.kind}; expected one file."
                )
        return self


class CorpusHeldOutConfig(ClosedModel):
    """The documents that evaluate encoders; no encoder is trained on them."""

    share: Part
    """Share of the documents, each chosen by the hash of its id."""
    seed: Whole


class CorpusConfig(ClosedModel):
    """Documents of paragraphs: JSON Lines of {"id", "title", "paragraphs": [...]}."""

    files: Annotated[list[FileName], Field(min_length=1)]
    """Members that hold documents, in their order."""
    documents: Count
    """Official number of documents of all files; any other number is an error."""
    held_out: CorpusHeldOutConfig
    left_out: list[Text] = Field(default_factory=list)
    """Ids of documents that no part has, such as those of a test set."""


class PieceTableConfig(ClosedModel):
    """An encoder's embeddings of those pieces that are whole words."""

    tensor: str
    """Name of the embeddings in the weights."""
    words: FileName
    """Member with the pieces, one per line in the order of the embeddings."""


class VectorTableConfig(ClosedModel):
    """A table of word vectors."""

    file: FileName
    """Member: a word and its numbers per line, or the weights of an encoder."""
    dim: Count
    """Numbers per word; for an encoder, principal components."""
    pieces: PieceTableConfig | None = None
    """Which weights of an encoder are the vectors; null: the file is text."""


class DatasetConfig(ClosedModel):
    """A whole file sources/<name>.yaml."""

    title: str
    licence: str
    """Terms of use."""
    citation: str
    homepage: str
    """Where to read about it and, if it needs a licence, to request it."""
    note: str | None = None
    """What a user should know before using it."""
    max_bytes: Count = 1_000_000_000
    """Limit on the bytes fetched per file and unpacked per archive."""
    files: list[FileConfig] = Field(default_factory=list)
    generator: GeneratorConfig | None = None
    task: TaskConfig | None = None
    vectors: dict[FileName, VectorTableConfig] | None = None
    encoder: list[FileName] | None = None
    """Members that make up a pretrained encoder."""
    corpus: CorpusConfig | None = None

    @property
    def kind(self) -> str:
        """Kind of what preprocessing makes, or "source" for a bare source."""
        if self.task:
            return self.task.kind.name
        parts = {"vectors": self.vectors, "encoder": self.encoder, "corpus": self.corpus}
        return next((kind for kind, part in parts.items() if part), "source")

    @property
    def member_names(self) -> list[str]:
        """Names below data/raw/<name>/, sorted."""
        if self.generator:
            return sorted(self.generator.sizes)
        return sorted({member.name for file in self.files for member in file.wanted})

    @model_validator(mode="after")
    def _check_origin(self) -> "DatasetConfig":
        if bool(self.files) == (self.generator is not None):
            raise ValueError("expected either files or a generator.")
        parts = (self.task, self.vectors, self.encoder, self.corpus)
        if sum(part is not None for part in parts) > 1:
            raise ValueError("expected at most one of task, vectors, encoder and corpus.")
        known = self.member_names
        if missing := [name for name in self._list_used() if name not in known]:
            hint = suggest(missing[0], known)
            raise ValueError(f"no file gives the member '{missing[0]}'. {hint}")
        return self

    def _list_used(self) -> list[str]:
        used = [*(self.encoder or []), *(self.corpus.files if self.corpus else [])]
        for table in (self.vectors or {}).values():
            used += [table.file, *([table.pieces.words] if table.pieces else [])]
        if self.task:
            for split in self.task.splits.values():
                used += [*split.files, *split.side_files]
            used += self.task.reader.list_members()
        return used


def read_dataset(name: str, folder: Path = Path("sources")) -> DatasetConfig:
    names = [path.stem for path in folder.glob("*.yaml")]
    check_known(str(folder), "dataset", name, names, ConfigError)
    return read_config(folder / f"{name}.yaml", DatasetConfig)


def read_registry(folder: Path = Path("sources")) -> dict[str, DatasetConfig]:
    return {path.stem: read_config(path, DatasetConfig) for path in sorted(folder.glob("*.yaml"))}
