"""The definition of a kind of task: its columns and targets.

Configuration files are checked against kinds, so nothing heavy is imported here.
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
"""An integer, yes or no, a number, a text, several texts, several small integers."""
ROW_CUTS = ("row",)
TEXT_CUTS = ("row", "text_a", "phrase_root")
TABLES = ("tsv", "csv", "jsonl", "parquet")


class Column(NamedTuple):
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
    """What is predicted for an example.

    Attributes:
        name: of its column, if it has one.
        answer: form of a prediction.
        right: form of the right answer.
        source: the key of a manifest that lists the possible predictions.
    """

    name: str
    answer: Form
    right: Form
    source: str = "labels"


class UserFile(NamedTuple):
    """The form of a user's file with examples of a kind.

    Attributes:
        metrics: the default metrics.
        texts: default names of the columns of texts.
        label: default name of the column of the label, or of the tags in tagging.
        tags: default name of the column of tags, if there is a label too.
        formats: possible formats; none if only sources/ can describe such tasks.
        keys: keys of `data` that this kind has and others do not.
        plain_metrics: the default metrics if tags mark no entities.
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
        """The columns that a row needs."""
        return len(self.texts) + 1 + (self.tags is not None)


NO_FILE = UserFile(formats=())


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of task.

    Attributes:
        name: in configuration files and manifests.
        columns: of the processed parquet files, in order.
        targets: what is predicted for an example.
        texts: the columns of text that a model may read whole.
        cuts: by what a part of train can be held out.
        user_file: the form of a user's file.
        has_confusion: whether it has a confusion matrix.
        is_auxiliary: whether it only helps to train other tasks and is never predicted.
    """

    name: str
    columns: tuple[Column, ...]
    targets: tuple[Target, ...]
    texts: tuple[str, ...] = ()
    cuts: tuple[str, ...] = TEXT_CUTS
    user_file: UserFile = NO_FILE
    has_confusion: bool = False
    is_auxiliary: bool = False

    def __str__(self) -> str:
        return self.name

    @property
    def column_names(self) -> list[str]:
        return [column.name for column in self.columns]

    @property
    def tokens(self) -> list[str]:
        """The columns of the tokens of its texts."""
        return [name for name in self.column_names if name.startswith("tokens")]

    @property
    def num_texts(self) -> int:
        """The texts of an example, including a passage."""
        return len(self.tokens)

    @property
    def target_names(self) -> list[str]:
        return [target.name for target in self.targets]

    @property
    def has_classes(self) -> bool:
        """Whether a task lists the possible predictions: labels, tags, sorts of answers."""
        return self.targets[0].answer != "number"

    @property
    def has_label(self) -> bool:
        """Whether a whole example has a label, several labels or a number."""
        return self.targets[0].name in (LABEL, LABELS)

    @property
    def has_several_labels(self) -> bool:
        return self.targets[0].name == LABELS

    @property
    def is_number(self) -> bool:
        return self.has_label and not self.has_classes

    @property
    def has_tags(self) -> bool:
        return TAGS in self.target_names

    @property
    def has_passages(self) -> bool:
        """Whether answers are spans of a passage, the second text."""
        return ANSWERS in self.target_names

    @property
    def predicts_words(self) -> bool:
        return NEXT_WORD in self.target_names

    @property
    def is_grouped(self) -> bool:
        """Whether rows are candidates of questions."""
        return GROUP in self.column_names


KINDS: Registry[Kind] = Registry("kind")


def register(kind: Kind) -> Kind:
    return KINDS.register(kind.name)(kind)


def list_user_kinds() -> list[str]:
    """Return the names of the kinds that a user's file can have, sorted."""
    return [name for name in KINDS.names() if KINDS.get(name).user_file.formats]
