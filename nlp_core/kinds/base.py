"""What a kind of task states: its columns, targets, readers and metrics.

Configuration files are checked against kinds, so nothing heavy is imported here: the form of a
column and the module of the metrics are names, which higher floors look up.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from nlp_core.registry import Registry

LABEL = "label"
LABELS = "labels"
TAGS = "tags"
NEXT_WORD = "next_word"
ANSWERS = "answers"
MASKED = "masked"
GROUP = "group"
Form = Literal["count", "flag", "number", "text", "texts", "places"]
"""A whole number, yes or no, a number, a text, several texts, several small whole numbers."""
ROW_CUTS = ("row",)
TEXT_CUTS = ("row", "text_a", "phrase_root")
TABLES = ("tsv", "csv", "jsonl", "parquet")

AVERAGED_METRICS = tuple(
    f"{average}_{name}"
    for average in ("macro", "micro", "weighted")
    for name in ("auc", "f1", "precision", "recall")
)
OPERATING_POINT_METRICS = (
    "recall_at_precision@PRECISION",
    "recall_at_precision@PRECISION@LABEL",
    "threshold_at_precision@PRECISION",
    "threshold_at_precision@PRECISION@LABEL",
)


class Column(NamedTuple):
    """A column of the parquet files of processed data."""

    name: str
    form: Form


TEXT_COLUMNS = (Column("id", "count"), Column("text", "text"), Column("tokens", "texts"))
PAIR_TEXTS = ("text_a", "text_b")
PAIR_COLUMNS = (
    Column("id", "count"),
    *(Column(name, "text") for name in PAIR_TEXTS),
    Column("tokens_a", "texts"),
    Column("tokens_b", "texts"),
)


class Target(NamedTuple):
    """What is predicted of an example.

    Attributes:
        name: of its column, or of what is computed: label, labels, tags, next_word ...
        answer: form of a prediction.
        right: form of what is right.
        source: the key of a manifest that lists what can be predicted.
    """

    name: str
    answer: Form
    right: Form
    source: str = "labels"


class UserFile(NamedTuple):
    """How a user's file holds examples of a kind.

    Attributes:
        metrics: what is usually measured.
        texts: what the columns of the texts are usually called.
        label: what the column of the label is usually called; of tagging that of the tags.
        tags: what the column of the tags is usually called, if there is a label too.
        formats: the formats that can hold it; none where only sources/ describes such tasks.
        keys: the keys of `data` that only some kinds have, and this one does.
        plain_metrics: what is usually measured where tags write no entities.
    """

    metrics: tuple[str, ...] = ()
    texts: tuple[str, ...] = ("text",)
    label: str = LABEL
    tags: str | None = None
    formats: tuple[str, ...] = TABLES
    keys: tuple[str, ...] = ()
    plain_metrics: tuple[str, ...] = ()

    @property
    def num_columns(self) -> int:
        """Return how many columns a row needs."""
        return len(self.texts) + 1 + (self.tags is not None)


NO_FILE = UserFile(formats=())


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of task.

    Attributes:
        name: as configuration files and manifests spell it.
        columns: of the processed parquet files, in their order.
        targets: what is predicted; more than one where an example has several answers.
        texts: the columns of text that a model may read whole.
        readers: the readers of sources/ that give its examples.
        cuts: by what a part of train can be held out.
        metrics: all that it can be measured by, sorted, with parameters in capitals.
        metrics_module: where they are computed.
        user_file: how a user's file holds it.
        has_confusion: whether each row has one label that is taken for another.
        is_auxiliary: whether it only trains an encoder: it chooses no epoch beside other tasks.
    """

    name: str
    columns: tuple[Column, ...]
    targets: tuple[Target, ...]
    texts: tuple[str, ...] = ()
    readers: tuple[str, ...] = ()
    cuts: tuple[str, ...] = TEXT_CUTS
    metrics: tuple[str, ...]
    metrics_module: str
    user_file: UserFile = NO_FILE
    has_confusion: bool = False
    is_auxiliary: bool = False

    def __str__(self) -> str:
        return self.name

    @property
    def column_names(self) -> list[str]:
        """Return the names of the columns."""
        return [column.name for column in self.columns]

    @property
    def tokens(self) -> list[str]:
        """Return the columns of the tokens of its texts."""
        return [name for name in self.column_names if name.startswith("tokens")]

    @property
    def num_texts(self) -> int:
        """Return how many texts an example has, a passage among them."""
        return len(self.tokens)

    @property
    def target_names(self) -> list[str]:
        """Return the names of what is predicted."""
        return [target.name for target in self.targets]

    @property
    def has_classes(self) -> bool:
        """Say whether a task names what can be predicted: labels, tags, sorts of answers."""
        return self.targets[0].answer != "number"

    @property
    def has_label(self) -> bool:
        """Say whether an example as a whole has a label, several labels or a number."""
        return self.targets[0].name in (LABEL, LABELS)

    @property
    def has_several_labels(self) -> bool:
        """Say whether an example has any number of labels."""
        return self.targets[0].name == LABELS

    @property
    def is_number(self) -> bool:
        """Say whether an example's label is a number."""
        return self.has_label and not self.has_classes

    @property
    def has_tags(self) -> bool:
        """Say whether each word has a tag."""
        return TAGS in self.target_names

    @property
    def has_passages(self) -> bool:
        """Say whether answers are stretches of a passage, the second text."""
        return ANSWERS in self.target_names

    @property
    def predicts_words(self) -> bool:
        """Say whether each next word of a text is predicted."""
        return NEXT_WORD in self.target_names

    @property
    def is_grouped(self) -> bool:
        """Say whether rows are candidates, which belong to questions."""
        return GROUP in self.column_names


KINDS: Registry[Kind] = Registry("kind")


def register(kind: Kind) -> Kind:
    """Register a kind under its name."""
    return KINDS.register(kind.name)(kind)


def list_user_kinds() -> list[str]:
    """Return the names of the kinds that a user's files can be of, sorted."""
    return [name for name in KINDS.names() if KINDS.get(name).user_file.formats]
