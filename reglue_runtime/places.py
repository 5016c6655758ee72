"""What a window of pieces has room for, and which one of a long text shows a word best."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a compiled library that only models of pieces need
    from tokenizers import Encoding, Tokenizer


def begin_words(tokenizer: str) -> str:
    """Return a tokenizer, as JSON, that reads words given one by one as it reads them in a text.

    A byte-level one (GPT-2, RoBERTa) knows a word's beginning by the space before it, which a word
    alone does not have.
    """
    found: dict[str, Any] = json.loads(tokenizer)
    for part, parts in (("pre_tokenizer", "pretokenizers"), ("post_processor", "processors")):
        outer = found.get(part) or {}
        for step in [outer, *outer.get(parts, [])]:
            if "add_prefix_space" in step:  # the second one takes the space off the offsets
                step["add_prefix_space"] = True
    return json.dumps(found)


def find_words(windows: Sequence["Encoding"], size: int, *, sequence: int) -> list[tuple[int, int]]:
    """Return for each word the window that shows most of what is around it, and its first piece.

    A word without any piece, such as a control character, has the place of the first piece of all.

    Args:
        windows: of one example.
        size: its words.
        sequence: whether the words are those of the first (0) or the second (1) text.
    """
    best: list[tuple[int, int, int]] = [(-1, 0, 0)] * size
    for number, window in enumerate(windows):
        last = len(window.ids) - 1
        pieces = zip(window.word_ids, window.sequence_ids, window.offsets, strict=True)
        for place, (word, owner, (start, _)) in enumerate(pieces):
            if word is None or owner != sequence or start != 0:
                continue
            around = min(place, last - place)
            # a later piece of a word begins at 0 too where it stands for nothing of its own
            is_later = best[word][1] == number and best[word][0] >= 0
            if around > best[word][0] and not is_later:
                best[word] = (around, number, place)
    return [(window, place) for _, window, place in best]


def count_opening_pieces(tokenizer: "Tokenizer", max_length: int, stride: int) -> int:
    """Return how many pieces of a first text leave a second one room to move on in.

    Windows of the second text have `stride` pieces in common, so each has to have one more.
    """
    return max_length - tokenizer.num_special_tokens_to_add(is_pair=True) - stride - 1


def cut_words(words: Sequence[str], tokenizer: "Tokenizer", most: int) -> list[str]:
    """Return the first words of a text, the last one cut if need be, that have so many pieces.

    Args:
        words: the text.
        tokenizer: one that does not cut texts itself.
        most: of the pieces; 1 at least.
    """
    found = tokenizer.encode(list(words), is_pretokenized=True, add_special_tokens=False)
    if len(found.ids) <= most:
        return list(words)
    number = found.word_ids[most]
    assert number is not None  # only special pieces are of no word
    kept = list(words[:number])
    if found.word_ids[most - 1] == number:
        # shorter in any case: what is left of a word may have other pieces than it had there
        end = min(found.offsets[most - 1][1], len(words[number]) - 1)
        kept.append(words[number][:end])
    return cut_words(kept, tokenizer, most)
