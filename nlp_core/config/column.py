"""Names of the columns that a model can read, beyond the tokens of a text."""

SYMBOLS = "features."
"""Prefix of a column that holds a symbol for each token."""
NUMBERS = "dense."
"""Prefix of a column that holds one or more numbers for each example."""
TOKEN_NUMBERS = "token_dense."
"""Prefix of a column that holds a number for each token."""
TOKEN_VECTORS = "token_vectors."
"""Prefix of a column that holds a vector for each token, all of one width."""
TEXTS = "texts"
"""The column of an example's text, or of its two texts, before tokenization."""
SINGLE_TEXTS = ("text_a", "text_b")
"""The columns of each of two texts by itself, before tokenization."""
WHOLE_TEXTS = (TEXTS, *SINGLE_TEXTS)
"""The columns that a model's own tokenizer cuts into pieces."""
PIECES = ".pieces"
"""Suffix of a column whose tokens a model's own tokenizer cuts into pieces."""
