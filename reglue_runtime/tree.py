"""Trees of intents and slots in brackets: `[IN:GET_TIME what time in [SL:PLACE Rome ] ]`.

A tree is a list of symbols. `[LABEL` opens a constituent, `]` closes one, and all others are the
tokens of the sentence in their order; a token that begins with a bracket is written after a
backslash. A parser writes it as actions: SHIFT the next token, REDUCE (close), or open a label.

Source: Gupta et al. 2018 (semantic parsing for task-oriented dialog using hierarchical
    representations), section 2.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

SHIFT, REDUCE, OPEN = 0, 1, 2
"""The ids of actions; from OPEN on, each opens the label of that number."""
BRACKETS = "[]"
INTENT, SLOT = "IN:", "SL:"
ESCAPE = "\\"


class TreeError(ValueError):
    """What is wrong with the symbols of a tree."""


class Constituent(NamedTuple):
    """A constituent over the tokens from `start` to `end`, which is excluded."""

    label: str
    start: int
    end: int


class Derivation(NamedTuple):
    """A tree that is being written.

    Attributes:
        open: labels of the open constituents, the root first.
        read: tokens written.
        opened: constituents opened so far.
        is_empty: whether the last open constituent has nothing in it.
    """

    open: tuple[int, ...] = ()
    read: int = 0
    opened: int = 0
    is_empty: bool = True

    @property
    def is_done(self) -> bool:
        return self.opened > 0 and not self.open

    def follow(self, action: int) -> "Derivation":
        """Return the derivation after an action."""
        if action == REDUCE:
            return self._replace(open=self.open[:-1], opened=max(self.opened, 1), is_empty=False)
        if action == SHIFT:
            return self._replace(read=self.read + 1, is_empty=False)
        return Derivation((*self.open, action - OPEN), self.read, self.opened + 1, is_empty=True)

    def list_moves(self, length: int, max_open: int) -> "TreeMoves":
        """Return the actions that a tree over `length` tokens can go on with."""
        if self.is_done or length == 0:
            return TreeMoves(False, False, None)
        has_tokens = self.read < length
        closes = bool(self.open) and not self.is_empty
        has_room = len(self.open) < max_open and self.opened < length + max_open
        parent = self.open[-1] if self.open else -1
        return TreeMoves(
            bool(self.open) and has_tokens,
            closes and (len(self.open) > 1 or not has_tokens),
            parent if has_tokens and has_room else None,
        )


class TreeMoves(NamedTuple):
    """The actions that a derivation may go on with.

    Attributes:
        parent: label of the constituent in which one may open, -1 for the root; None: none may.
    """

    shifts: bool
    closes: bool
    parent: int | None


def count_steps(length: int, max_open: int) -> int:
    """Return the most actions for a number of tokens: each is written, all constituents end."""
    return 3 * length + 2 * max_open


def opens(symbol: str) -> bool:
    """Return whether a symbol opens a constituent."""
    return symbol.startswith("[")


def write_token(token: str) -> str:
    return ESCAPE + token if token[:1] in (*BRACKETS, ESCAPE) else token


def read_token(symbol: str) -> str:
    return symbol.removeprefix(ESCAPE)


def list_leaves(symbols: Iterable[str]) -> list[str]:
    """Return the tokens of a tree."""
    return [read_token(symbol) for symbol in symbols if symbol[:1] not in (*BRACKETS,)]


def list_constituents(symbols: Sequence[str]) -> list[Constituent]:
    """Return the constituents of a tree in the order in which they close.

    Raises:
        TreeError: the symbols do not form a tree with one root, or a constituent has no token.
    """
    found: list[Constituent] = []
    opened: list[tuple[str, int]] = []
    position = 0
    for idx, symbol in enumerate(symbols):
        _check_symbol(symbol, has_root=bool(found) and not opened)
        if opens(symbol):
            opened.append((symbol[1:], position))
        elif not opened:
            raise TreeError(f"found '{symbol}' at place {idx + 1}, expected '[' and a label")
        elif symbol == "]":
            label, start = opened.pop()
            if start == position:
                raise TreeError(f"found '[{label}' without a token in it")
            found.append(Constituent(label, start, position))
        else:
            position += 1
    if opened:
        raise TreeError(f"found no ']' for '[{opened[-1][0]}'")
    if not found:
        raise TreeError("found no bracket")
    return found


def _check_symbol(symbol: str, *, has_root: bool) -> None:
    if has_root:
        raise TreeError(f"found '{symbol}' after the tree's last bracket")
    if symbol == "[":
        raise TreeError("found '[' without a label")
    if symbol.startswith("]") and symbol != "]":
        raise TreeError(f"found '{symbol}', expected a space after ']'")


def is_tree(symbols: Sequence[str], tokens: Sequence[str]) -> bool:
    """Return whether symbols are a tree over exactly these tokens."""
    try:
        list_constituents(symbols)
    except TreeError:
        return False
    return list_leaves(symbols) == [*tokens]


def write_tree(actions: Iterable[int], labels: Sequence[str], tokens: Sequence[str]) -> list[str]:
    """Return the symbols that actions write.

    From OPEN + len(labels) on, an action copies the token of that number out of its turn.
    """
    return [*_write(actions, labels, tokens)]


def _write(actions: Iterable[int], labels: Sequence[str], tokens: Sequence[str]) -> Iterator[str]:
    position = 0
    for action in actions:
        if action == SHIFT:
            yield write_token(tokens[position])
            position += 1
        elif action == REDUCE:
            yield "]"
        elif action < OPEN + len(labels):
            yield "[" + labels[action - OPEN]
        else:
            yield write_token(tokens[action - OPEN - len(labels)])


def nest_tags(intent: str, tags: Sequence[str], tokens: Sequence[str]) -> list[str]:
    """Return the tree of depth one of an utterance with an intent and BIO tags of slots."""
    symbols, inside = [f"[{INTENT}{intent}"], ""
    for tag, token in zip(tags, tokens, strict=True):
        prefix, _, slot = tag.partition("-")
        if inside and (prefix != "I" or slot != inside):
            symbols.append("]")
            inside = ""
        if slot and not inside:
            symbols.append(f"[{SLOT}{slot}")
            inside = slot
        symbols.append(write_token(token))
    return [*symbols, *(["]"] if inside else []), "]"]
