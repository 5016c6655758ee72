"""Bring the examples of a caller to one form."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from reglue_runtime import text
from reglue_runtime.manifest import BundleError, Manifest

Given: TypeAlias = str | Sequence[Any] | Mapping[str, Any]  # Any: checked here
"""A text, its tokens, two texts, or columns by name."""
SENTENCES = "sentences"
"""The column of the sentences of a document: a list of texts, or of lists of tokens; or a text with
a sentence in each line."""
HISTORY = "text_history"
"""The column of the earlier turns of a dialogue: a list of texts, or of lists of tokens."""
FEATURES = ("features.", "dense.", "token_dense.", "token_vectors.")
"""How the names of columns besides texts begin."""
PAIR = {"text_a", "text_b", "tokens_a", "tokens_b"}


class ExampleError(BundleError):
    """An example is not what the bundle reads; `place` is its index in the list, from 0."""

    def __init__(self, place: int, detail: str) -> None:
        super().__init__(f"example {place + 1}: {detail}")
        self.place = place


class InputExample(NamedTuple):
    """One example.

    Attributes:
        texts: by column (text, text_a, text_b); given tokens are joined by spaces.
        tokens: by column (tokens, tokens_a, tokens_b).
        extras: other columns: features.pos, dense.votes ...
        place: index in the caller's list, from 0.
    """

    texts: dict[str, str]
    tokens: dict[str, list[str]]
    extras: dict[str, Any]  # Any: a list of words or numbers, checked where it is read
    place: int


class Reader:
    def __init__(self, manifest: Manifest) -> None:
        self.names = manifest.texts
        self.max_tokens = manifest.tokenizer["max_tokens"]
        self.tokenize = _build_tokenizer(manifest.tokenizer)

    def read(self, given: Given, place: int) -> InputExample:
        """Return an example, or raise ExampleError if it lacks a text that the model reads."""
        if self.names == [SENTENCES]:
            columns = dict(given) if isinstance(given, Mapping) else {SENTENCES: given}
            return self._read_document(columns, place)
        if isinstance(given, Mapping):
            columns = dict(given)
        elif len(self.names) == 1:
            columns = {self.names[0]: given}
        elif HISTORY in self.names and isinstance(given, str):
            columns = {"text": given, HISTORY: []}
        elif isinstance(given, list | tuple) and len(given) == len(self.names):
            columns = dict(zip(self.names, given, strict=True))
        else:
            raise self._refuse(given, place)
        texts, tokens = {}, {}
        for name in self.names:
            key = name.replace("text", "tokens")
            value = columns.pop(name, None)
            words = columns.pop(key, None)
            if name == HISTORY and words is None:
                words = self._join_history(value)
            words = value if words is None else words
            if isinstance(words, str):
                tokens[key] = self.tokenize(words)[: self.max_tokens]
            elif isinstance(words, Sequence) and all(isinstance(word, str) for word in words):
                tokens[key] = list(words)[: self.max_tokens] or [text.EMPTY_TOKEN]
            else:
                raise self._refuse(given, place)
            texts[name] = value if isinstance(value, str) else " ".join(tokens[key])
            _check_text([texts[name], *tokens[key]], place)
        self._check_columns(columns, place)
        return InputExample(texts, tokens, columns, place)

    def _check_columns(self, columns: Mapping[str, Any], place: int) -> None:
        """Refuse a column that nothing reads, such as a misspelt one.

        A tower reads one text of a pair.
        """
        known = PAIR if PAIR & {*self.names} else set()
        unread = [name for name in columns if not name.startswith(FEATURES) and name not in known]
        if unread:
            begins = ", ".join(f"'{name}'" for name in FEATURES)
            raise ExampleError(
                place,
                f"found the column '{unread[0]}', expected only {', '.join(self.names)}, their "
                f"tokens, and columns whose names begin with {begins}.",
            )

    def _read_document(self, columns: dict[str, Any], place: int) -> InputExample:
        """Return an example whose extras have the tokens of each sentence."""
        given = columns.pop(SENTENCES, None)
        parts = text.split_turns(given) if isinstance(given, str) else given
        if not isinstance(parts, Sequence) or not parts or not all(map(_is_text, parts)):
            raise self._refuse(given, place)
        words = [
            self.tokenize(part) if isinstance(part, str) else [*part] or [text.EMPTY_TOKEN]
            for part in parts
        ]
        names = [part if isinstance(part, str) else " ".join(part) for part in parts]
        tokens = {"tokens": [word for row in words for word in row], SENTENCES: names}
        _check_text(tokens["tokens"], place)
        self._check_columns(columns, place)
        return InputExample({}, tokens, {**columns, SENTENCES: [*map(len, words)]}, place)

    def _join_history(self, given: Any) -> list[str] | None:
        """Return the tokens of earlier turns, given as a list, or as a text with TURN in it."""
        turns = given.split(text.TURN) if isinstance(given, str) else given or []
        if not isinstance(turns, Sequence) or not all(map(_is_text, turns)):
            return None
        filled = [item for item in turns if (item.strip() if isinstance(item, str) else item)]
        words = [self.tokenize(item) if isinstance(item, str) else item for item in filled]
        return text.join_turns(words)

    def _refuse(self, given: Given, place: int) -> ExampleError:
        wanted = "a text" if len(self.names) == 1 else "two texts"
        if self.names == [SENTENCES]:
            wanted = "a list of sentences"
        return ExampleError(
            place,
            f"found {str(given)[:60]!r}, expected {wanted}: each a string or a list of tokens, or "
            f"a dictionary with {' and '.join(self.names)}.",
        )


def _check_text(words: Sequence[str], place: int) -> None:
    """Raise ExampleError if there is half a character, which no graph can read."""
    try:
        "".join(words).encode()
    except UnicodeEncodeError as err:
        found = err.object[err.start]
        raise ExampleError(place, f"found {found!a}, half a character, expected text.") from err


def _is_text(item: object) -> bool:
    """Return whether an item is a text or a list of tokens."""
    if isinstance(item, str):
        return True
    return isinstance(item, list | tuple) and all(isinstance(word, str) for word in item)


def _build_tokenizer(note: Mapping[str, Any]) -> Callable[[str], list[str]]:
    steps, name = text.read_steps(note["name"])
    if note["substitutions"] is not None:
        return text.add_steps(steps, text.build_rewriter(note["substitutions"]))
    return text.add_steps(steps, text.SPLITTERS[name])


def pad(rows: Sequence[Sequence[Any] | np.ndarray], fill: object, dtype: type) -> np.ndarray:
    """Return [N, longest row], at least one column wide; shorter rows end with `fill`."""
    found: np.ndarray = np.full((len(rows), max(1, *map(len, rows))), fill, dtype=dtype)
    for row, values in enumerate(rows):
        found[row, : len(values)] = values
    return found
