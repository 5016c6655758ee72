"""The closed models of what a model file says of one's own data: how it is read, how to train."""

from collections.abc import Collection
from typing import Annotated, Literal

from pydantic import Field, model_validator

from nlp_core.config.base import ClosedModel
from nlp_core.config.dataset import KindField, TaskConfig
from nlp_core.config.name import Name
from nlp_core.config.number import Count, Positive
from nlp_core.config.reader import (
    NUMBERS,
    SYMBOLS,
    TOKEN_NUMBERS,
    ConllReaderConfig,
    EntityScheme,
)
from nlp_core.config.recipe import (
    OptimizerConfig,
    OptimizerName,
    RecipeConfig,
    Schedule,
    WarmupLinearSchedule,
)
from nlp_core.kinds import KINDS, list_user_kinds

Format = Literal["tsv", "csv", "jsonl", "parquet", "conll", "squad"]
LEARNT_SCHEMES = {"IOB1": "BIO", "BIO": "BIO", "BIOES": "BIOES", "BILOU": "BIOES", "spans": "BIO"}
Scheme = Literal[EntityScheme, "plain", "spans"]
SEPARATORS = {"tsv": "\t", "csv": ","}
CHOICE_METRICS = ["accuracy", "mrr"]
"""Of questions with one right candidate."""


class DataConfig(ClosedModel):
    """How files are read as examples: the `data` section of a model file."""

    kind: KindField
    """What is learnt: one label, several or a number of a text; a label or a number of two; an
    order of candidates; tags; a label and tags; where the answer to a question stands."""
    format: Format
    """tsv, csv, jsonl (an object a line), parquet, conll (a token a line), or squad (the JSON of
    SQuAD, for the kind span alone)."""
    texts: Annotated[list[str], Field(min_length=1, max_length=2)]
    """Column of the text, or of the two texts; of the tokens for tags. Columns without names
    (no header, conll) are called "1", "2" ..."""
    label: str
    """Column of the label, the labels, the number; for tagging of the tags."""
    tags: str | None = None
    """intent_slots: column of the tags."""
    group: str | None = None
    """ranking: column that names the question of a candidate; null: equal first texts that follow
    each other are one question."""
    choices: Annotated[list[str], Field(min_length=2)] | None = None
    """ranking: columns of the candidates of a row's question, one of which is right; `texts` is
    then the question alone, in one column or in two that are read one behind the other. null: a
    row holds one candidate."""
    choice_labels: list[str] | None = None
    """ranking with choices: what the column of the label calls each of them; null: 0, 1, 2 ..."""
    features: dict[Name, str] = Field(default_factory=dict)
    """Columns of a symbol for each token, such as its part of speech, by the name that a model has
    for them: `pos` is features.pos. One text alone."""
    dense: dict[Name, str] = Field(default_factory=dict)
    """Columns of one or more numbers of a row, as many in each: `votes` is dense.votes."""
    token_dense: dict[Name, str] = Field(default_factory=dict)
    """Columns of a number for each token: `surprisal` is token_dense.surprisal. One text alone."""
    label_separator: Annotated[str, Field(min_length=1)] | None = None
    """multi_label: what stands between the labels of a cell; null: a list (jsonl, parquet)."""
    header: bool = True
    """tsv and csv: whether the first line names the columns."""
    separator: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    """Between columns; null: a tab (tsv), a comma (csv), any white space (conll)."""
    quoted: bool | None = None
    """tsv and csv: whether a cell in double quotes may hold separators; null: csv only."""
    comments: bool = False
    """conll: whether lines that begin with # and ranges such as 3-4 are skipped (CoNLL-U)."""
    scheme: Scheme | None = None
    """How tags write entities; plain: each tag stands for itself (parts of speech); spans: they are
    no tags but stretches of a text, as [[0, 4, "PER"]], objects of start, end and label, or
    0:4:PER."""
    learnt_scheme: Literal["BIO", "BIOES"] | None = None
    """How tags write entities that are learnt and predicted; null: as the file, BIO for IOB1 and
    spans, BIOES for BILOU."""
    tokens: str = "words"
    """How a text becomes tokens: split at spaces (`spaces`), Penn Treebank words (`words`), or the
    tokenizer of a plug-in. Answers and entities that are stretches of a text need `spaces` or
    `plain_words`, which say where a token stands."""
    max_tokens: Count | None = None
    """Tokens of a text that are read, the rest is cut off; null: all. span: tokens of a context
    that are read in training; it is read whole to find an answer."""
    max_words: Count = 100_000
    """Distinct words of a column that are told apart, the most frequent ones."""
    metrics: Annotated[list[str], Field(min_length=1)] | None = None
    """What is measured, of which the first chooses the epoch; null: the usual ones of the kind."""

    @model_validator(mode="after")
    def _check_kind(self) -> "DataConfig":
        if not self.kind.user_file.formats:
            raise ValueError(
                f"kind: found {self.kind}, expected one of {', '.join(list_user_kinds())}; a task "
                f"of kind {self.kind} is described in sources/ and trained as a cell of grid/."
            )
        return self

    @model_validator(mode="after")
    def _check_format(self) -> "DataConfig":
        usual = self.kind.user_file
        if self.format not in usual.formats:
            raise ValueError(
                f"format: found {self.format} with kind {self.kind}, expected "
                f"{' or '.join(usual.formats)}."
            )
        named = (*self.texts, self.label) == (*usual.texts, usual.label)
        if self.format == "squad" and not named:
            raise ValueError(
                f"texts, label: found {self.texts} and {self.label}, expected {[*usual.texts]} "
                f"and {usual.label}, as the JSON of SQuAD calls them."
            )
        return self

    @model_validator(mode="after")
    def _check_columns(self) -> "DataConfig":
        num_texts = len(self.text_names)
        if len(self.texts) != num_texts and not self.choices:
            raise ValueError(f"texts: found {self.texts}; the kind {self.kind} needs {num_texts}.")
        columns = [*self.input_columns, self.label, *([self.tags] if self.tags else [])]
        columns += self.extras.values()
        if len(set(columns)) != len(columns):
            raise ValueError(f"found the columns {columns}; expected each to be another one.")
        for name in list_user_kinds():
            for key in KINDS.get(name).user_file.keys:
                if getattr(self, key) is not None and key not in self.kind.user_file.keys:
                    raise ValueError(f"{key}: found with kind {self.kind}; only {name} has one.")
        if self.choices and self.group is not None:
            raise ValueError("group: found with choices; each row is a question of its own.")
        if self.choice_labels and len(set(self.choice_labels)) != len(self.choices or []):
            raise ValueError(
                f"choice_labels: found {self.choice_labels}, expected another one for each of "
                f"{len(self.choices or [])} choices."
            )
        if (self.kind.user_file.tags is None) != (self.tags is None):
            raise ValueError(f"tags: found {self.tags}; intent_slots has them, and it alone.")
        return self

    @model_validator(mode="after")
    def _check_extras(self) -> "DataConfig":
        names = ", ".join(self.extras)
        if self.extras and (self.kind.has_passages or self.choices):
            raise ValueError(f"found {names} with {self.choices or self.kind}; leave them out.")
        if self.dense and self.format == "conll":
            raise ValueError(
                f"dense: found {names} with conll, whose columns have a value for each token; "
                "token_dense has these."
            )
        if (self.features or self.token_dense) and len(self.texts) > 1:
            raise ValueError(f"found {names} with two texts; a value for each token needs one.")
        if (self.features or self.token_dense) and self.max_tokens is not None:
            raise ValueError(f"max_tokens: found with {names}; such a text cannot be cut.")
        return self

    @model_validator(mode="after")
    def _check_tags(self) -> "DataConfig":
        is_tagged = self.kind.has_tags
        if is_tagged != (self.scheme is not None):
            raise ValueError(
                f"scheme: found {self.scheme} with kind {self.kind}; tags need one of "
                f"{', '.join([*LEARNT_SCHEMES, 'plain'])}, no other kind has one."
            )
        if self.learnt_scheme is not None and self.scheme in (None, "plain"):
            raise ValueError(
                f"learnt_scheme: found with scheme {self.scheme}; only entities are written so."
            )
        if self.has_spans and self.format == "conll":
            raise ValueError("scheme: found spans with conll, which has a tag for each token.")
        if self.has_spans and (self.features or self.token_dense):
            raise ValueError(
                f"found {', '.join(self.extras)} with scheme spans; a text has no values of its "
                "tokens."
            )
        if is_tagged and self.max_tokens is not None:
            raise ValueError("max_tokens: a sentence whose every token is tagged cannot be cut.")
        return self

    @property
    def extras(self) -> dict[str, str]:
        """Return the columns beside texts and targets, by what a model's inputs call them."""
        parts = {SYMBOLS: self.features, NUMBERS: self.dense, TOKEN_NUMBERS: self.token_dense}
        return {start + name: item for start, part in parts.items() for name, item in part.items()}

    @property
    def has_spans(self) -> bool:
        """Say whether entities stand as stretches of a text, which is read whole."""
        return self.scheme == "spans"

    @property
    def tag_column(self) -> str | None:
        """Return the column of the tags, if the kind has any."""
        return (self.tags or self.label) if self.kind.has_tags else None

    @property
    def text_names(self) -> list[str]:
        """Return what a model's inputs call the texts."""
        return self.kind.tokens

    @property
    def input_columns(self) -> list[str]:
        """Return the columns of all texts of a row, the candidates of its question among them."""
        return [*self.texts, *(self.choices or [])]

    @property
    def choice_names(self) -> list[str]:
        """Return what the column of the label calls each candidate of a row."""
        return self.choice_labels or [str(number) for number in range(len(self.choices or []))]

    @property
    def separator_or_usual(self) -> str | None:
        """Return what stands between columns; None for any white space."""
        return self.separator or SEPARATORS.get(self.format)

    @property
    def is_quoted(self) -> bool:
        """Say whether cells may stand in double quotes."""
        return self.format == "csv" if self.quoted is None else self.quoted

    @property
    def target_scheme(self) -> str | None:
        """Return the scheme that is learnt; plain tags have none."""
        usual = LEARNT_SCHEMES.get(self.scheme or "")
        return self.learnt_scheme or usual

    @property
    def metrics_or_usual(self) -> list[str]:
        """Return what is measured."""
        usual = self.kind.user_file
        metrics = usual.plain_metrics if self.scheme == "plain" else usual.metrics
        return self.metrics or (CHOICE_METRICS if self.choices else [*metrics])


def describe_files(task: TaskConfig, form: Format, inputs: Collection[str] = ()) -> DataConfig:
    """Return how files are read that a trained cell predicts or is measured on.

    Columns are called as exported models call them: text, or text_a and text_b; tokens and tags;
    label, or labels; further ones as the source calls them. Column files are read as the source is.

    Args:
        task: as sources/ describes it, of a kind that a user's files can hold.
        form: of the files; questions on passages have the JSON of SQuAD alone.
        inputs: the columns that the model reads.
    """
    usual = task.kind.user_file
    texts, label = [*usual.texts], usual.label
    form = "squad" if task.kind.has_passages else form
    scheme: Scheme | None = task.scheme
    features = _cut_names(inputs, SYMBOLS)
    if form == "conll" and isinstance(task.reader, ConllReaderConfig):
        texts, label, scheme = ["1"], str(task.reader.columns), task.reader.scheme
        features = {name: str(task.reader.features[name] + 1) for name in features}
    return DataConfig(
        kind=task.kind,
        format=form,
        texts=texts,
        label=label,
        tags=usual.tags,
        features=features,
        dense=_cut_names(inputs, NUMBERS),
        token_dense=_cut_names(inputs, TOKEN_NUMBERS),
        scheme=scheme,
        learnt_scheme=task.scheme,
        tokens=task.tokens,
        metrics=task.metrics,
    )


def _cut_names(inputs: Collection[str], start: str) -> dict[str, str]:
    names = [name.removeprefix(start) for name in inputs if name.startswith(start)]
    return {name: name for name in names}


class UsualOptimizerConfig(OptimizerConfig):
    """An optimiser of which nothing has to be said."""

    name: OptimizerName = "adam"
    lr: Positive = 0.001


FOREIGN = ("mixing", "task_weights", "task_batch_sizes", "task_lr_scales", "distillation")
"""Keys of a recipe that say something of several tasks, or of teachers."""


class TrainingConfig(RecipeConfig):
    """A recipe inside a model file: what is not said has a value that serves most nets."""

    source: str = "the defaults of reglue"
    optimizer: UsualOptimizerConfig = UsualOptimizerConfig()
    schedule: Schedule = WarmupLinearSchedule(name="warmup_linear", warmup=0.1)
    batch_size: Count = 32
    epochs: Count = 10
    patience: Count | None = 3
    clip_norm: Positive | None = 5.0
    max_steps: Count | None = None
    """Steps after which training ends, whatever the epoch; null: all epochs."""

    @model_validator(mode="after")
    def _refuse_foreign(self) -> "TrainingConfig":
        if found := [name for name in FOREIGN if getattr(self, name) is not None]:
            raise ValueError(
                f"found {found[0]}, which is for cells of grid/: here is one task and no teacher; "
                "leave it out."
            )
        return self
