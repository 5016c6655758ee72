"""Cut texts into windows of the pieces of a pretrained encoder's tokenizer.

Training reads this module too.

Shape letters: B batch, T tokens, L pieces of a window, W windows.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reglue_runtime.example import InputExample, pad

if TYPE_CHECKING:  # only models of pieces need it
    from tokenizers import Encoding, Tokenizer


def build_windows(
    note: Mapping[str, Any], folder: Path
) -> Callable[[Sequence[InputExample]], dict[str, np.ndarray]]:
    """Return what reads texts as one window each, or tokens in as many windows as they need."""
    from tokenizers import Tokenizer

    written = (folder / note["file"]).read_text(encoding="utf-8")
    if note["stride"] is None:
        tokenizer = Tokenizer.from_str(written)
        tokenizer.no_padding()
        tokenizer.enable_truncation(note["max_length"])
        return lambda examples: _read_texts(examples, tokenizer, note)
    tokenizer = Tokenizer.from_str(begin_words(written))
    tokenizer.no_padding()
    strategy = "longest_first" if note["before"] is None else "only_second"
    whole = Tokenizer.from_str(begin_words(written)) if note["before"] else tokenizer
    whole.no_padding()
    whole.no_truncation()
    tokenizer.enable_truncation(note["max_length"], stride=note["stride"], strategy=strategy)
    return lambda examples: _read_words(examples, tokenizer, whole, note)


def _read_texts(
    examples: Sequence[InputExample], tokenizer: "Tokenizer", note: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    names = [note["column"]] if note["column"] else list(examples[0].texts)
    given = [tuple(example.texts[name] for name in names) for example in examples]
    inputs: list[Any] = [item[0] if len(item) == 1 else item for item in given]
    return _stack(tokenizer.encode_batch(inputs), note)


def _stack(windows: Sequence["Encoding"], note: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return ids, segments [W, L] and the number of real pieces [W]."""
    sizes = np.array([len(window.ids) for window in windows], dtype=np.int64)
    ids = pad([window.ids for window in windows], note["padding"], np.int64)
    found = {f"{note['name']}.ids": ids, f"{note['name']}.lengths": sizes}
    if note["segments"]:
        types = [window.type_ids for window in windows]
        found[f"{note['name']}.segments"] = pad(types, 0, np.int64)
    return found


def _read_words(
    examples: Sequence[InputExample],
    tokenizer: "Tokenizer",
    whole: "Tokenizer",
    note: Mapping[str, Any],
) -> dict[str, np.ndarray]:
    """Return what `_stack` does and places [B, T]; `whole` is the tokenizer without truncation."""
    texts = [example.tokens[note["column"]] for example in examples]
    inputs: list[Any] = texts
    if note["before"] is not None:
        # the first text leaves most of a window to the second
        limit = note["max_length"] // 4
        most = count_opening_pieces(whole, note["max_length"], note["stride"])
        openings = [
            cut_words(example.tokens[note["before"]][:limit], whole, most) for example in examples
        ]
        inputs = list(zip(openings, texts, strict=True))
    windows: list[Encoding] = []
    rows = []
    for words, first in zip(
        texts, tokenizer.encode_batch(inputs, is_pretokenized=True), strict=True
    ):
        own = [first, *first.overflowing]
        found = find_words(own, len(words), sequence=int(note["before"] is not None))
        rows.append([(len(windows) + window, place) for window, place in found])
        windows += own
    arrays = _stack(windows, note)
    width = arrays[f"{note['name']}.ids"].shape[1]
    flat = [[window * width + place for window, place in found] for found in rows]
    return arrays | {f"{note['name']}.places": pad(flat, 0, np.int64)}


def begin_words(tokenizer: str) -> str:
    """Return a tokenizer, as JSON, that reads single words as it reads them in a text.

    A byte-level one (GPT-2, RoBERTa) marks the beginning of a word by the space before it, which a
    single word does not have.
    """
    found: dict[str, Any] = json.loads(tokenizer)
    for part, parts in (("pre_tokenizer", "pretokenizers"), ("post_processor", "processors")):
        outer = found.get(part) or {}
        for step in [outer, *outer.get(parts, [])]:
            if "add_prefix_space" in step:  # the post-processor removes the space from the offsets
                step["add_prefix_space"] = True
    return json.dumps(found)


def find_words(windows: Sequence["Encoding"], size: int, *, sequence: int) -> list[tuple[int, int]]:
    """Return for each word the window with the most context around it, and its first piece there.

    A word without pieces, such as a control character, gets the first piece of all. `windows` are
    those of one example; the `size` words are its first (0) or its second (1) text.
    """
    best: list[tuple[int, int, int]] = [(-1, 0, 0)] * size
    for number, window in enumerate(windows):
        last = len(window.ids) - 1
        pieces = zip(window.word_ids, window.sequence_ids, window.offsets, strict=True)
        for place, (word, owner, (start, _)) in enumerate(pieces):
            if word is None or owner != sequence or start != 0:
                continue
            around = min(place, last - place)
            # a later piece of a word also begins at 0 if it represents no character
            is_later = best[word][1] == number and best[word][0] >= 0
            if around > best[word][0] and not is_later:
                best[word] = (around, number, place)
    return [(window, place) for _, window, place in best]


def count_opening_pieces(tokenizer: "Tokenizer", max_length: int, stride: int) -> int:
    """Return how many pieces of a first text leave room for the second one to advance.

    Windows of the second text share `stride` pieces, so each needs one more.
    """
    return max_length - tokenizer.num_special_tokens_to_add(is_pair=True) - stride - 1


def cut_words(words: Sequence[str], tokenizer: "Tokenizer", most: int) -> list[str]:
    """Return the first words that fit in `most` pieces (at least 1), the last one cut if need be.

    The tokenizer must not truncate.
    """
    found = tokenizer.encode(list(words), is_pretokenized=True, add_special_tokens=False)
    if len(found.ids) <= most:
        return list(words)
    number = found.word_ids[most]
    assert number is not None  # only special pieces belong to no word
    kept = list(words[:number])
    if found.word_ids[most - 1] == number:
        # at least one character shorter: the rest of a word may have other pieces
        end = min(found.offsets[most - 1][1], len(words[number]) - 1)
        kept.append(words[number][:end])
    return cut_words(kept, tokenizer, most)
