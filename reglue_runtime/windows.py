"""Cut texts into windows of the pieces of a pretrained encoder's tokenizer.

Shape letters: B batch, T tokens, L pieces of a window, W windows.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Encoding, Tokenizer

from reglue_runtime.example import InputExample
from reglue_runtime.padding import pad
from reglue_runtime.places import begin_words, count_opening_pieces, cut_words, find_words


def build_windows(
    note: Mapping[str, Any], folder: Path
) -> Callable[[Sequence[InputExample]], dict[str, np.ndarray]]:
    """Return what reads texts as one window each, or tokens in as many windows as they need."""
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
    examples: Sequence[InputExample], tokenizer: Tokenizer, note: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    names = [note["column"]] if note["column"] else list(examples[0].texts)
    given = [tuple(example.texts[name] for name in names) for example in examples]
    inputs: list[Any] = [item[0] if len(item) == 1 else item for item in given]
    return _stack(tokenizer.encode_batch(inputs), note)


def _stack(windows: Sequence[Encoding], note: Mapping[str, Any]) -> dict[str, np.ndarray]:
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
    tokenizer: Tokenizer,
    whole: Tokenizer,
    note: Mapping[str, Any],
) -> dict[str, np.ndarray]:
    """Return ids and segments [W, L], the number of real pieces [W] and places [B, T].

    `whole` is the tokenizer without truncation, for texts that come first.
    """
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
