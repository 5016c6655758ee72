"""The sections of a model file on a user's data: how files are read, how the model is trained."""

from collections.abc import Collection
from typing import Annotated, Literal

from pydantic import Field, model_validator

from nlp_core.config.base import ClosedModel, Count, Name, Positive, Text, Whole
from nlp_core.config.column import NUMBERS, SYMBOLS, TOKEN_NUMBERS, TOKEN_VECTORS
from nlp_core.config.dataset import KindField, TaskConfig
from nlp_core.config.optimizer import OptimizerConfig, OptimizerName
from nlp_core.config.reader import EntityScheme, check_patterns
from nlp_core.config.recipe import RecipeConfig
from nlp_core.config.schedule import Schedule, WarmupLinearSchedule
from nlp_core.kinds import KINDS, SENTENCES, list_user_kinds

Format = Literal[
    "tsv", "csv", "jsonl", "json", "parquet", "arrow", "spacy", "conll", "brat", "squad"
]
LEARNT_SCHEMES = {"IOB1": "BIO", "BIO": "BIO", "BIOES": "BIOES", "BILOU": "BIOES", "spans": "BIO"}
Scheme = Literal[EntityScheme, "plain", "spans"]
SEPARATORS = {"tsv": "\t", "csv": ","}
CHOICE_METRICS = ["accuracy", "mrr"]
"""Of questions with one right candidate."""


FORMAT_KEYS = {
    "header": ("tsv", "csv"),
    "separator": ("tsv", "csv", "conll"),
    "quoted": ("tsv", "csv"),
    "comments": ("conll",),
}
"""The formats that read a key."""


class DataConfig(ClosedModel):
    """How files are read as examples: the `data` section of a model file."""

    kind: KindField
    """What is learned: one label, several labels or a number of a text; a label or a number of a
    pair; a ranking of candidates; tags; a label and tags; the span that answers a question; which
    passages answer a query, of all passages; a text that is written for a text; a label of each
    sentence of a document."""
    format: Format
    """tsv, csv, jsonl (an object per line), json (an array of objects, or of tasks of Label
    Studio), parquet, arrow (a folder of Hugging Face datasets), spacy (a DocBin), conll (a token
    per line), brat (a folder of .txt and .ann files), or squad (SQuAD's JSON, kind span only)."""
    texts: Annotated[list[str], Field(min_length=1, max_length=2)]
    """Column of the text, or of both texts; for tags, column of the tokens; for dialogue, of the
    tokens and of the earlier turns; for document, of the list of sentences. Columns without names
    (no header, conll) are called "1", "2" ..."""
    label: str
    """Column of the label, the labels, the number or the text to write; for tagging of the tags.
    retrieval: column
    that says whether the passage answers the query; empty if each one does."""
    tags: str | None = None
    """intent_slots, dialogue: column of the tags."""
    group: str | None = None
    """ranking, retrieval: column with the id of a candidate's question; null: consecutive rows with
    the same first text are one question."""
    choices: Annotated[list[str], Field(min_length=2)] | None = None
    """ranking: columns of the candidates of a row's question, one of which is right; `texts` is
    then the question, in one column or in two that are joined. null: one candidate per row."""
    choice_labels: list[str] | None = None
    """ranking with choices: the value of the label column for each; null: 0, 1, 2 ..."""
    features: dict[Name, str] = Field(default_factory=dict)
    """Columns of a symbol per token, such as its part of speech: key NAME is column features.NAME
    of the model. One text only."""
    dense: dict[Name, str] = Field(default_factory=dict)
    """Columns of one or more numbers, equally many per row: dense.NAME."""
    token_dense: dict[Name, str] = Field(default_factory=dict)
    """Columns of a number per token: token_dense.NAME. One text only."""
    token_vectors: dict[Name, str] = Field(default_factory=dict)
    """Columns of a list of vectors, one per token, such as those of an encoder:
    token_vectors.NAME. One text only; jsonl, json, parquet or arrow."""
    label_separator: Text | None = None
    """multi_label: separator of the labels in a cell; null: a list (jsonl, parquet)."""
    header: bool = True
    """tsv and csv: whether the first line names the columns."""
    separator: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    """Separator of columns; null: a tab (tsv), a comma (csv), any white space (conll)."""
    quoted: bool | None = None
    """tsv and csv: whether a cell in double quotes may hold separators; null: csv only."""
    comments: bool = False
    """conll: whether lines that begin with # and ranges such as 3-4 are skipped (CoNLL-U). Ten
    columns are then also called id, form, lemma, upos, xpos, feats, head, deprel, deps, misc."""
    where: dict[str, str] = Field(default_factory=dict)
    """Regular expressions that whole values of a row match, by column; other rows are not trained
    or measured on. {"answer": "accept"} keeps what an annotator accepted."""
    scheme: Scheme | None = None
    """How tags encode entities. plain: tags are labels, such as parts of speech. spans: the column
    holds spans of the text: [[0, 4, "PER"]], objects of start, end and label, or 0:4:PER."""
    entity_type: Text | None = None
    """The type of entities whose tags have none, such as B and I; null: tags have their type."""
    learnt_scheme: Literal["BIO", "BIOES"] | None = None
    """Tagging scheme of training and prediction; null: that of the file, BIO for IOB1 and spans,
    BIOES for BILOU."""
    tokens: str = "words"
    """Tokenizer: split at spaces (`spaces`), Penn Treebank words (`words`), words, numbers and
    signs (`plain_words`; `unicode_words` keeps vowel signs with their letters; `characters` also
    cuts Chinese and Japanese), `chinese_words`, `japanese_words`, or one from a plug-in. Steps
    before it normalise the text, as in `nfkc+words`: `nfc`, `nfkc` or `width`. Answers and entities
    that are spans of a text need offsets, which `words` and steps do not keep."""
    max_tokens: Count | None = None
    """Tokens of a text that are read; null: all. span: tokens of a context that are read in
    training; prediction reads it whole."""
    max_words: Count = 100_000
    """Size limit of a column's vocabulary; the most frequent words are kept. generation: size limit
    of the words that can be written; all words of the text are kept."""
    out_of_scope: Text | None = None
    """classification, pair_classification: the label of rows that have none of the classes. It
    is not a class: the model answers it where its confidence is below a threshold."""
    metrics: Annotated[list[str], Field(min_length=1)] | None = None
    """The first one selects the epoch; null: the usual ones of the kind."""

    @model_validator(mode="after")
    def _check_format(self) -> "DataConfig":
        usual = self.kind.user_file
        if not usual.formats:
            raise ValueError(
                f"kind: found {self.kind}, expected one of {', '.join(list_user_kinds())}; other "
                "kinds need a file in sources/ and a cell in grid/."
            )
        if self.format not in usual.formats:
            raise ValueError(
                f"format: found {self.format} with kind {self.kind}, expected "
                f"{' or '.join(usual.formats)}."
            )
        for key, formats in FORMAT_KEYS.items():
            is_set = getattr(self, key) != DataConfig.model_fields[key].default
            if is_set and self.format not in formats:
                raise ValueError(
                    f"{key}: found with {self.format}, expected {' or '.join(formats)}; remove it."
                )
        if self.format == "squad" and (*self.texts, self.label) != (*usual.texts, usual.label):
            raise ValueError(
                f"texts, label: found {self.texts} and {self.label}, expected {[*usual.texts]} "
                f"and {usual.label}, the names in SQuAD's JSON."
            )
        return self

    @model_validator(mode="after")
    def _check_columns(self) -> "DataConfig":
        if not self.label and not self.kind.is_searched:
            raise ValueError("label: found nothing; only retrieval can do without a label.")
        num_texts = len(self.text_names)
        if len(self.texts) != num_texts and not self.choices:
            raise ValueError(f"texts: found {self.texts}; the kind {self.kind} needs {num_texts}.")
        columns = [*self.input_columns, self.label, *self.extras.values()]
        columns += [self.tags] if self.tags else []
        if len(set(columns)) != len(columns):
            raise ValueError(f"found the columns {columns}; expected each once.")
        for name in list_user_kinds():
            for key in KINDS.get(name).user_file.keys:
                if getattr(self, key) is not None and key not in self.kind.user_file.keys:
                    raise ValueError(f"{key}: found with kind {self.kind}; only {name} has it.")
        if self.choices and self.group is not None:
            raise ValueError("group: found with choices, where each row is a question.")
        num_choices = len(self.choices or [])
        if self.choice_labels and len(set(self.choice_labels)) != num_choices:
            raise ValueError(
                f"choice_labels: found {self.choice_labels}, expected {num_choices} different "
                "ones, one per choice."
            )
        if (self.kind.user_file.tags is None) != (self.tags is None):
            raise ValueError(
                f"tags: found {self.tags}; intent_slots and dialogue need them, no other kind has "
                "them."
            )
        return self

    @model_validator(mode="after")
    def _check_scope(self) -> "DataConfig":
        if self.out_of_scope is not None and not self.kind.has_confusion:
            raise ValueError(
                f"out_of_scope: found with kind {self.kind}; only kinds with one label a row have "
                "it: classification and pair_classification."
            )
        return self

    @model_validator(mode="after")
    def _check_where(self) -> "DataConfig":
        check_patterns(self.where)
        if self.where and self.format in ("conll", "squad"):
            raise ValueError(f"where: found with {self.format}, whose rows have no columns.")
        return self

    @model_validator(mode="after")
    def _check_extras(self) -> "DataConfig":
        names, has_token_values = (
            ", ".join(self.extras),
            self.features or self.token_dense or self.token_vectors,
        )
        if self.extras and (self.kind.has_passages or self.choices):
            raise ValueError(f"found {names} with {self.choices or self.kind}; remove them.")
        if self.dense and self.format == "conll":
            raise ValueError(
                f"dense: found {names} with conll, whose columns have a value for each token; use "
                "token_dense."
            )
        if self.token_vectors and self.format in ("tsv", "csv", "conll"):
            raise ValueError(
                f"token_vectors: found with {self.format}, whose cells hold no lists of vectors; "
                "use jsonl or parquet."
            )
        if has_token_values and len(self.texts) > 1:
            raise ValueError(f"found {names} with two texts; expected one.")
        if has_token_values and self.has_spans:
            raise ValueError(f"found {names} with scheme spans, which has no values for tokens.")
        if has_token_values and self.max_tokens is not None:
            raise ValueError(
                f"max_tokens: found with {names}; values for each token cannot be cut."
            )
        return self

    @model_validator(mode="after")
    def _check_tags(self) -> "DataConfig":
        if self.kind.has_tags != (self.scheme is not None):
            raise ValueError(
                f"scheme: found {self.scheme} with kind {self.kind}; tags need one of "
                f"{', '.join([*LEARNT_SCHEMES, 'plain'])}, other kinds have none."
            )
        if self.entity_type is not None and self.scheme in (None, "plain", "spans"):
            raise ValueError(
                f"entity_type: found with scheme {self.scheme}; only tags such as B and I need it."
            )
        if self.learnt_scheme is not None and self.scheme in (None, "plain"):
            raise ValueError(
                f"learnt_scheme: found with scheme {self.scheme}; only entities have one."
            )
        if self.has_spans and self.format == "conll":
            raise ValueError("scheme: found spans with conll, whose tokens have tags.")
        if self.has_spans and self.kind.has_history:
            raise ValueError(f"scheme: found spans with {self.kind}, whose tokens have tags.")
        if self.kind.has_tags and self.max_tokens is not None:
            raise ValueError("max_tokens: found with tags; a tagged sentence cannot be cut.")
        if self.kind.has_tree and self.max_tokens is not None:
            raise ValueError("max_tokens: found with a tree, which is over all tokens.")
        if self.kind.has_sentences and self.max_tokens is not None:
            raise ValueError("max_tokens: found with a document, whose sentences have labels.")
        return self

    @property
    def extras(self) -> dict[str, str]:
        """Columns other than texts and targets, by the name that a model's inputs use."""
        parts = {SYMBOLS: self.features, NUMBERS: self.dense, TOKEN_NUMBERS: self.token_dense}
        parts |= {TOKEN_VECTORS: self.token_vectors}
        return {start + name: item for start, part in parts.items() for name, item in part.items()}

    @property
    def has_spans(self) -> bool:
        """Whether entities are spans of a text."""
        return self.scheme == "spans"

    @property
    def tag_column(self) -> str | None:
        return (self.tags or self.label) if self.kind.has_tags else None

    @property
    def text_names(self) -> list[str]:
        """Names of the texts in a model's inputs."""
        return self.kind.tokens

    @property
    def read_names(self) -> list[str]:
        """Names of what a model's inputs can read, besides whole texts."""
        sizes = [SENTENCES] if self.kind.has_sentences else []
        return [*self.text_names, *self.extras, *sizes]

    @property
    def input_columns(self) -> list[str]:
        """Columns of all texts of a row, candidates included."""
        return [*self.texts, *(self.choices or [])]

    @property
    def choice_names(self) -> list[str]:
        """Value of the label column for each candidate of a row."""
        return self.choice_labels or [str(number) for number in range(len(self.choices or []))]

    @property
    def separator_or_usual(self) -> str | None:
        """Separator of columns; None: any white space."""
        return self.separator or SEPARATORS.get(self.format)

    @property
    def is_quoted(self) -> bool:
        return self.format == "csv" if self.quoted is None else self.quoted

    @property
    def target_scheme(self) -> str | None:
        """The scheme that is learned; None for plain tags."""
        return self.learnt_scheme or LEARNT_SCHEMES.get(self.scheme or "")

    @property
    def metrics_or_usual(self) -> list[str]:
        usual = self.kind.user_file
        metrics = usual.plain_metrics if self.scheme == "plain" else usual.metrics
        return self.metrics or (CHOICE_METRICS if self.choices else [*metrics])


def describe_files(task: TaskConfig, form: Format, inputs: Collection[str] = ()) -> DataConfig:
    """Return how to read files that a trained cell predicts or is measured on.

    Columns have the names that exported models use: text, or text_a and text_b; tokens and tags;
    label, or labels. Column files are read like the source; span always reads SQuAD's JSON.

    Args:
        inputs: the columns that the model reads.
    """
    usual = task.kind.user_file
    texts, label = [*usual.texts], usual.label
    form = "squad" if task.kind.has_passages else form
    scheme: Scheme | None = task.scheme
    features = _cut_names(inputs, SYMBOLS)
    places = task.reader.place_columns()
    if form == "conll" and places is not None:
        texts, label, scheme = [places.token], places.tag, places.scheme
        features = {name: places.features[name] for name in features}
    return DataConfig(
        kind=task.kind,
        format=form,
        texts=texts,
        label=label,
        tags=usual.tags,
        features=features,
        dense=_cut_names(inputs, NUMBERS),
        token_dense=_cut_names(inputs, TOKEN_NUMBERS),
        token_vectors=_cut_names(inputs, TOKEN_VECTORS),
        scheme=scheme,
        learnt_scheme=task.scheme,
        tokens=task.tokens,
        metrics=task.metrics,
    )


def _cut_names(inputs: Collection[str], start: str) -> dict[str, str]:
    names = [name.removeprefix(start) for name in inputs if name.startswith(start)]
    return {name: name for name in names}


class UsualOptimizerConfig(OptimizerConfig):
    """An optimizer with defaults."""

    name: OptimizerName = "adam"
    lr: Positive = 0.001


FOREIGN = ("mixing", "task_weights", "task_batch_sizes", "task_lr_scales", "distillation")
"""Fields of a recipe for several tasks or for teachers."""
NOT_FEW = (
    "adversarial",
    "augmentation",
    "pruning",
    "resample",
    "accumulate",
    "shards",
    "batch_tokens",
    "batch_growth",
    "buckets",
    "bucket_batches",
    "validations_per_epoch",
)
"""Fields that few-shot training does not use."""


class TrainingConfig(RecipeConfig):
    """A recipe inside a model file; the defaults serve most networks."""

    source: str = "the defaults of reglue"
    optimizer: UsualOptimizerConfig = UsualOptimizerConfig()
    schedule: Schedule = WarmupLinearSchedule(name="warmup_linear", warmup=0.1)
    batch_size: Count = 32
    epochs: Whole = 10
    patience: Count | None = 3
    kept_epoch: Literal["last", "last_best"] | None = "last_best"
    clip_norm: Positive | None = 5.0
    max_steps: Count | None = None
    """Steps after which training ends in any case; null: all epochs."""
    few_shot: bool = False
    """Whether the encoder learns from pairs of examples, with one label or two, before the head is
    fitted to its vectors. For a few examples of each label. `patience` ends no run."""
    calibration: Literal["temperature"] | None = "temperature"
    """How the confidence of a label is fitted on the part held out; null: it is not."""

    @model_validator(mode="after")
    def _check_foreign(self) -> "TrainingConfig":
        if found := [name for name in FOREIGN if getattr(self, name) is not None]:
            raise ValueError(
                f"found {found[0]}, which is for cells of grid/ with several tasks or a teacher; "
                "remove it."
            )
        usual = type(self).model_fields
        changed = [name for name in NOT_FEW if getattr(self, name) != usual[name].default]
        if self.few_shot and changed:
            raise ValueError(f"found {changed[0]} with few_shot, which ignores it; remove one.")
        if self.few_shot and self.batch_size < 2:
            raise ValueError(
                "batch_size: found 1 with few_shot, which learns from pairs of a batch."
            )
        return self
