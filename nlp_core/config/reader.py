"""The closed models of the readers that a task of sources/*.yaml may name."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from nlp_core.config.base import ClosedModel

PATH_PART = r"[A-Za-z0-9_][A-Za-z0-9_.+-]*"
FileName = Annotated[str, Field(pattern=rf"^{PATH_PART}$")]
ColumnName = Annotated[str, Field(min_length=1, pattern=r"^[^\t\n]+$")]
EntityScheme = Literal["IOB1", "BIO", "BIOES", "BILOU"]
"""How tags write entities; see nlp_core/data/tagging_scheme.py."""
SYMBOLS = "features."
"""How the name of a column begins that holds a symbol for each token."""
NUMBERS = "dense."
"""How the name of a column begins that holds one or more numbers for each example."""
TOKEN_NUMBERS = "token_dense."
"""How the name of a column begins that holds a number for each token."""
TEXTS = "texts"
"""The column of an example's text, or of its two texts, as they stand in the file."""
SINGLE_TEXTS = ("text_a", "text_b")
"""The columns of each of two texts by itself, as it stands in the file."""
WHOLE_TEXTS = (TEXTS, *SINGLE_TEXTS)
"""The columns whose places are the pieces that a model's own tokenizer cuts a text into."""
PIECES = ".pieces"
"""How the name of a column ends whose tokens are cut into the pieces of a model's own tokenizer."""


class TsvReaderConfig(ClosedModel):
    """Tab-separated columns, nothing quoted."""

    name: Literal["tsv"]
    texts: Annotated[list[str], Field(min_length=1, max_length=2)]
    """Columns of the text, or of the two texts."""
    label: str
    """Column of the label."""
    label_separator: Annotated[str, Field(min_length=1, pattern=r"^[^\t\n]+$")] | None = None
    """What stands between the labels of one cell, such as "," or a space; an empty cell has none.
    Kind multi_label only."""
    features: list[ColumnName] = Field(default_factory=list)
    """Columns of a symbol for each token of the text, between spaces: features.NAME to a model."""
    dense: list[ColumnName] = Field(default_factory=list)
    """Columns of numbers, as many in each row, between spaces: dense.NAME to a model."""
    token_dense: list[ColumnName] = Field(default_factory=list)
    """Columns of a number for each token of the text, between spaces: token_dense.NAME."""


class MrpcReaderConfig(ClosedModel):
    """The raw Microsoft paraphrase files, of which a list of ids cuts out dev."""

    name: Literal["mrpc"]
    dev_ids: FileName
    """File with the pairs of ids that make up dev."""


class ConllReaderConfig(ClosedModel):
    """One token a line, a blank line after each sentence."""

    name: Literal["conll"]
    columns: Annotated[int, Field(ge=2)]
    """Columns of a line; the first is the token, the last the tag."""
    separator: Literal["space", "tab"] = "space"
    """What stands between two columns, once."""
    scheme: EntityScheme
    """Tagging scheme of the file."""
    bare_type: Annotated[str, Field(min_length=1)] | None = None
    """Type of all entities of a file whose tags are letters alone (B, I, O); null: a tag names the
    type behind a hyphen."""
    docstart: Literal["keep", "drop"]
    """Whether -DOCSTART- lines count as sentences."""
    features: dict[ColumnName, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    """Columns between token and tag, counted from 0 (the token's): features.NAME to a model."""

    @model_validator(mode="after")
    def _check_features(self) -> "ConllReaderConfig":
        for name, number in self.features.items():
            if number >= self.columns - 1:
                raise ValueError(
                    f"features: {name}: found column {number} of {self.columns} columns counted "
                    f"from 0, expected one from 1 to {self.columns - 2}, between token and tag."
                )
        return self


class WikiqaReaderConfig(ClosedModel):
    """Question, sentence and label, tab-separated; equal questions in a row are one group."""

    name: Literal["wikiqa"]


class ParallelReaderConfig(ClosedModel):
    """Three files whose lines belong together: words, their tags, and the label of the whole."""

    name: Literal["parallel"]
    scheme: EntityScheme
    """Tagging scheme of the file of tags."""


class LinesReaderConfig(ClosedModel):
    """Running text: a sentence, a paragraph or a document a line; empty lines are left out."""

    name: Literal["lines"]


class SquadReaderConfig(ClosedModel):
    """JSON of SQuAD 1.1 or 2.0: articles of paragraphs, each with questions that it answers."""

    name: Literal["squad"]
    max_context_tokens: Annotated[int, Field(ge=1)] | None = None
    """Tokens of a paragraph that training reads: the rest is cut off, and questions answered there
    are left out of train. All other splits have whole paragraphs and all questions."""


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
