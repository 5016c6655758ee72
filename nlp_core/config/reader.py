"""The readers that a task of sources/*.yaml may name."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from nlp_core.config.base import ClosedModel
from nlp_core.config.number import Count

PATH_PART = r"[A-Za-z0-9_][A-Za-z0-9_.+-]*"
FileName = Annotated[str, Field(pattern=rf"^{PATH_PART}$")]
ColumnName = Annotated[str, Field(min_length=1, pattern=r"^[^\t\n]+$")]
EntityScheme = Literal["IOB1", "BIO", "BIOES", "BILOU"]
"""How tags write entities; see nlp_core/data/tagging_scheme.py."""
SYMBOLS = "features."
"""Prefix of a column that holds a symbol for each token."""
NUMBERS = "dense."
"""Prefix of a column that holds one or more numbers for each example."""
TOKEN_NUMBERS = "token_dense."
"""Prefix of a column that holds a number for each token."""
TEXTS = "texts"
"""The column of an example's text, or of its two texts, before tokenization."""
SINGLE_TEXTS = ("text_a", "text_b")
"""The columns of each of two texts by itself, before tokenization."""
WHOLE_TEXTS = (TEXTS, *SINGLE_TEXTS)
"""The columns that a model's own tokenizer cuts into pieces."""
PIECES = ".pieces"
"""Suffix of a column whose tokens a model's own tokenizer cuts into pieces."""


class TsvReaderConfig(ClosedModel):
    """Tab-separated columns, no quotes."""

    name: Literal["tsv"]
    texts: Annotated[list[str], Field(min_length=1, max_length=2)]
    """Columns of the text, or of the two texts."""
    label: str
    label_separator: Annotated[str, Field(min_length=1, pattern=r"^[^\t\n]+$")] | None = None
    """Separator of the labels in a cell, such as "," or a space; an empty cell has no label. Kind
    multi_label only."""
    features: list[ColumnName] = Field(default_factory=list)
    """Columns of a symbol per token, separated by spaces: features.NAME to a model."""
    dense: list[ColumnName] = Field(default_factory=list)
    """Columns of numbers, equally many per row, separated by spaces: dense.NAME to a model."""
    token_dense: list[ColumnName] = Field(default_factory=list)
    """Columns of a number per token, separated by spaces: token_dense.NAME to a model."""


class MrpcReaderConfig(ClosedModel):
    """The raw Microsoft paraphrase files; dev is a list of ids."""

    name: Literal["mrpc"]
    dev_ids: FileName
    """File with the pairs of ids of dev."""


class ConllReaderConfig(ClosedModel):
    """One token a line, a blank line after each sentence."""

    name: Literal["conll"]
    columns: Annotated[int, Field(ge=2)]
    """Columns per line; the first is the token, the last the tag."""
    separator: Literal["space", "tab"] = "space"
    """Separator of columns, a single one."""
    scheme: EntityScheme
    """Tagging scheme of the file."""
    bare_type: Annotated[str, Field(min_length=1)] | None = None
    """Type of all entities in a file whose tags are only letters (B, I, O); null: a tag names the
    type after a hyphen."""
    docstart: Literal["keep", "drop"]
    """Whether -DOCSTART- lines count as sentences."""
    features: dict[ColumnName, Count] = Field(default_factory=dict)
    """Columns between token and tag, counted from 0 (the token's): features.NAME to a model."""

    @model_validator(mode="after")
    def _check_features(self) -> "ConllReaderConfig":
        for name, number in self.features.items():
            if number >= self.columns - 1:
                raise ValueError(
                    f"features: {name}: found column {number}, expected one from 1 to "
                    f"{self.columns - 2}, between token (0) and tag."
                )
        return self


class WikiqaReaderConfig(ClosedModel):
    """Question, sentence and label, tab-separated; equal questions in a row are one group."""

    name: Literal["wikiqa"]


class ParallelReaderConfig(ClosedModel):
    """Three files, line by line: words, their tags, and the label of the sentence."""

    name: Literal["parallel"]
    scheme: EntityScheme
    """Tagging scheme of the file of tags."""


class LinesReaderConfig(ClosedModel):
    """Running text: a sentence, a paragraph or a document a line; empty lines are left out."""

    name: Literal["lines"]


class SquadReaderConfig(ClosedModel):
    """JSON of SQuAD 1.1 or 2.0: articles of paragraphs with questions."""

    name: Literal["squad"]
    max_context_tokens: Count | None = None
    """Tokens of a paragraph that training reads; questions answered after them leave train. All
    other splits have whole paragraphs and all questions."""


ReaderConfig = Annotated[
    TsvReaderConfig
    | MrpcReaderConfig
    | ConllReaderConfig
    | WikiqaReaderConfig
    | ParallelReaderConfig
    | LinesReaderConfig
    | SquadReaderConfig,
    Field(discriminator="name"),
]
