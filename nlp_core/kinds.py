"""The kinds of task: the columns of their examples, and what is predicted.

Configuration files are checked against kinds, so nothing heavy is imported here.
"""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from nlp_core.registry import Registry

LABEL = "label"
LABELS = "labels"
TAGS = "tags"
NEXT_WORD = "next_word"
TREE = "tree"
OUTPUT = "output"
ANSWERS = "answers"
MASKED = "masked"
GROUP = "group"
HISTORY = "tokens_history"
SENTENCES = "sentences"
Form = Literal["count", "flag", "number", "text", "texts", "places"]
"""An integer, yes or no, a number, a text, several texts, several small integers."""
TABLES = ("tsv", "csv", "jsonl", "json", "parquet", "arrow", "spacy")


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
        answer, right: forms of a prediction and of the right answer.
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
        texts, label, tags: default names of columns. In tagging `label` is that of the tags.
        formats: possible formats; none if only sources/ can describe such tasks.
        keys: keys of `data` that only this kind has.
        plain_metrics: the default metrics if tags mark no entities.
    """

    metrics: tuple[str, ...] = ()
    texts: tuple[str, ...] = ("text",)
    label: str = LABEL
    tags: str | None = None
    formats: tuple[str, ...] = TABLES
    keys: tuple[str, ...] = ()
    plain_metrics: tuple[str, ...] = ()


NO_FILE = UserFile(formats=())


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of task.

    Attributes:
        columns: of the processed parquet files, in order.
        texts: the columns of text that a model may read whole.
        cuts: by what a part of train can be held out.
        is_auxiliary: whether it only helps to train other tasks and is never predicted.
    """

    name: str
    columns: tuple[Column, ...]
    targets: tuple[Target, ...]
    texts: tuple[str, ...] = ()
    cuts: tuple[str, ...] = ("row", "text_a", "phrase_root")
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
        return [name for name in self.column_names if name.startswith("tokens")]

    @property
    def num_texts(self) -> int:
        """The texts of an example, including a passage; the history of a dialogue is none."""
        return len([name for name in self.tokens if name != HISTORY])

    @property
    def target_names(self) -> list[str]:
        return [target.name for target in self.targets]

    @property
    def has_classes(self) -> bool:
        """Whether there is a list of possible predictions: labels, tags, sorts of answers."""
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
        return TAGS in self.target_names and not self.has_sentences

    @property
    def has_sentences(self) -> bool:
        """Whether an example is a document, whose sentences have a label each: its tags."""
        return SENTENCES in self.column_names

    @property
    def has_passages(self) -> bool:
        """Whether answers are spans of a passage, the second text."""
        return ANSWERS in self.target_names

    @property
    def has_tree(self) -> bool:
        return TREE in self.target_names

    @property
    def writes_text(self) -> bool:
        """Whether a text is written, whose words are those of training or copies."""
        return OUTPUT in self.target_names

    @property
    def reads_tokens(self) -> bool:
        """Whether files have the tokens of an example, not its text."""
        return self.has_tags or self.has_tree

    @property
    def has_history(self) -> bool:
        """Whether an example has the earlier turns of a dialogue as its second text."""
        return HISTORY in self.column_names

    @property
    def predicts_words(self) -> bool:
        return NEXT_WORD in self.target_names

    @property
    def is_grouped(self) -> bool:
        """Whether rows are candidates of questions."""
        return GROUP in self.column_names

    @property
    def is_searched(self) -> bool:
        """Whether a candidate is searched for among many passages, and its rank is predicted."""
        return self.targets[0].answer == "count"

    @property
    def unit(self) -> str:
        """The name, in the plural, of what the bootstrap resamples."""
        counted = "documents" if self.is_auxiliary else "examples"
        return "queries" if self.is_searched else "questions" if self.is_grouped else counted


KINDS: Registry[Kind] = Registry("kind")


def register(kind: Kind) -> Kind:
    return KINDS.register(kind.name)(kind)


def list_user_kinds() -> list[str]:
    return [name for name in KINDS.names() if KINDS.get(name).user_file.formats]


CLASSIFICATION = register(
    Kind(
        name="classification",
        columns=(*TEXT_COLUMNS, Column(LABEL, "text")),
        targets=(Target(LABEL, "text", "text"),),
        texts=("text",),
        user_file=UserFile(("accuracy", "macro_f1")),
        has_confusion=True,
    )
)

PAIR_CLASSIFICATION = register(
    replace(
        CLASSIFICATION,
        name="pair_classification",
        columns=(*PAIR_COLUMNS, Column(LABEL, "text")),
        texts=PAIR_TEXTS,
        user_file=CLASSIFICATION.user_file._replace(texts=PAIR_TEXTS),
    )
)

REGRESSION = register(
    Kind(
        name="regression",
        columns=(*TEXT_COLUMNS, Column(LABEL, "number")),
        targets=(Target(LABEL, "number", "number"),),
        texts=("text",),
        user_file=UserFile(("pearson", "spearman", "rmse")),
    )
)

PAIR_REGRESSION = register(
    replace(
        REGRESSION,
        name="pair_regression",
        columns=(*PAIR_COLUMNS, Column(LABEL, "number")),
        texts=PAIR_TEXTS,
        user_file=REGRESSION.user_file._replace(texts=PAIR_TEXTS),
    )
)

RANKING = register(
    Kind(
        name="ranking",
        columns=(*PAIR_COLUMNS, Column(LABEL, "text"), Column(GROUP, "count")),
        targets=(Target(LABEL, "text", "text"),),
        texts=PAIR_TEXTS,
        user_file=UserFile(
            ("map", "mrr"), texts=PAIR_TEXTS, keys=(GROUP, "choices", "choice_labels")
        ),
    )
)

RETRIEVAL = register(
    replace(
        RANKING,
        name="retrieval",
        targets=(Target(LABEL, "count", "text"),),
        cuts=("row", *PAIR_TEXTS),
        user_file=UserFile(("mrr@10", "recall@10", "ndcg@10"), texts=PAIR_TEXTS, keys=(GROUP,)),
    )
)
"""A row is a query and a passage that answers it or, labelled as wrong, a hard negative of it."""

MULTI_LABEL = register(
    Kind(
        name="multi_label",
        columns=(*TEXT_COLUMNS, Column(LABELS, "texts")),
        targets=(Target(LABELS, "texts", "texts"),),
        texts=("text",),
        user_file=UserFile(
            ("micro_f1", "macro_f1", "exact_match"), label=LABELS, keys=("label_separator",)
        ),
    )
)

TAGGING = register(
    Kind(
        name="tagging",
        columns=(Column("id", "count"), Column("tokens", "texts"), Column(TAGS, "texts")),
        targets=(Target(TAGS, "texts", "texts"),),
        cuts=("row",),
        user_file=UserFile(
            ("f1", "accuracy"),
            texts=("tokens",),
            label=TAGS,
            formats=(*TABLES, "conll", "brat"),
            plain_metrics=("accuracy",),
        ),
    )
)

INTENT_SLOTS = register(
    replace(
        TAGGING,
        name="intent_slots",
        columns=(*TAGGING.columns, Column(LABEL, "text")),
        targets=(Target(LABEL, "text", "text"), Target(TAGS, "texts", "texts", source="tags")),
        user_file=UserFile(
            ("frame_accuracy", "intent_accuracy", "slot_f1"),
            texts=("tokens",),
            tags=TAGS,
            plain_metrics=("frame_accuracy", "intent_accuracy"),
        ),
    )
)

DIALOGUE = register(
    replace(
        INTENT_SLOTS,
        name="dialogue",
        columns=(*INTENT_SLOTS.columns, Column(HISTORY, "texts")),
        user_file=INTENT_SLOTS.user_file._replace(texts=("tokens", "history")),
    )
)
"""A turn of a dialogue with the earlier turns, see `join_turns` of reglue_runtime/text.py."""

DOCUMENT = register(
    replace(
        TAGGING,
        name="document",
        columns=(*TAGGING.columns, Column(SENTENCES, "places")),
        user_file=UserFile(("accuracy", "macro_f1"), texts=(SENTENCES,), label=LABELS),
    )
)
"""Sentences in their order. `tokens` are those of all sentences, `sentences` the tokens of each."""

PARSING = register(
    replace(
        TAGGING,
        name="parsing",
        columns=(*TAGGING.columns[:2], Column(TREE, "texts")),
        targets=(Target(TREE, "texts", "texts"),),
        user_file=UserFile(
            ("exact_match", "bracket_f1", "validity"), texts=("tokens",), label=TREE
        ),
    )
)

GENERATION = register(
    Kind(
        name="generation",
        columns=(*TEXT_COLUMNS, Column(OUTPUT, "texts")),
        targets=(Target(OUTPUT, "text", "text"),),
        texts=("text",),
        cuts=("row", "text_a"),
        user_file=UserFile(
            ("chrf", "bleu", "rouge_l", "exact_match"), texts=("source",), label="target"
        ),
    )
)
"""A text is written for a text. Its words are stored as tokens, and joined by spaces.

chrF selects the epoch of a user's model: the BLEU of texts under four words is always 0.
"""

SPAN_LABELS = ["answerable", "unanswerable"]
"""Sorts of questions; a task has the first, or both."""

SPAN = register(
    Kind(
        name="span",
        columns=(
            PAIR_COLUMNS[0],
            Column("key", "text"),
            *PAIR_COLUMNS[1:],
            Column("starts_b", "places"),
            Column("ends_b", "places"),
            Column(ANSWERS, "texts"),
            Column("answerable", "flag"),
            Column("first", "count"),
            Column("last", "count"),
        ),
        targets=(Target(ANSWERS, "text", "texts"),),
        cuts=("row", "article", "paragraph"),
        user_file=UserFile(
            ("f1", "exact_match"), texts=("question", "context"), label=ANSWERS, formats=("squad",)
        ),
    )
)

LANGUAGE_MODEL = register(
    Kind(
        name="language_model",
        columns=TEXT_COLUMNS,
        targets=(Target(NEXT_WORD, "number", "number"),),
    )
)

MASKED_LANGUAGE_MODEL = register(
    Kind(
        name="masked_language_model",
        columns=(Column("text", "text"), Column("tokens", "texts")),
        targets=(Target(MASKED, "number", "number"),),
        texts=("text",),
        is_auxiliary=True,
    )
)
