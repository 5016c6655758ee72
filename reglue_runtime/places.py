"""How many pieces fit a window, and which window of a long text shows a word best."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # only models of pieces need it
    from tokenizers import Encoding, Tokenizer


def begin_words(tokenizer: str) -> str:
    """Return a tokenizer, as JSON, that reads single words as it reads them in a text.

    A byte-level one (GPT-2, RoBERTa) marks the beginning of a word by the space before it, which a
    single word lacks.
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

    A word without pieces, such as a control character, gets the first piece of all.

    Args:
        windows: of one example.
        size: number of words.
        sequence: whether they are the first (0) or the second (1) text.
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
