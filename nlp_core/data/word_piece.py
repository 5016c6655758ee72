"""The tokenizer of an encoder that is pretrained: learned on a corpus, or the one it came with."""

import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nlp_core.config.dataset import TRAIN
from nlp_core.data.corpus import Corpus
from nlp_core.errors import ConfigError
from reglue_runtime.windows import begin_words

if TYPE_CHECKING:
    from tokenizers import Tokenizer

log = logging.getLogger(__name__)

PADDING, UNKNOWN, FIRST, LAST, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
SPECIAL_PIECES = [PADDING, UNKNOWN, FIRST, LAST, MASK]
OTHER_NAMES = {PADDING: "<pad>", UNKNOWN: "<unk>", FIRST: "<s>", LAST: "</s>", MASK: "<mask>"}
UNUSED = re.compile(r"^\[unused\d+\]$")
MOST_SHARDS = 64  # bounds the time and the distinct words of learning
RARE_LETTERS = 1.0e-4  # share of all characters that the letters left out make up together
CONTINUED = "##"


@dataclass(frozen=True)
class PieceSet:
    """The pieces of a tokenizer by their role in pre-training.

    Attributes:
        tokenizer: without truncation or padding.
        first: id of the piece before a text.
        last: id of the piece after each text.
        ordinary: ids of all pieces that can occur in a text and be predicted, sorted.
    """

    tokenizer: "Tokenizer"
    padding: int
    first: int
    last: int
    mask: int
    ordinary: np.ndarray

    @property
    def is_ordinary(self) -> np.ndarray:
        """Whether each id can be predicted, [V]."""
        found = np.zeros(self.tokenizer.get_vocab_size(), dtype=bool)
        found[self.ordinary] = True
        return found

    @property
    def unknown(self) -> str:
        vocabulary = self.tokenizer.get_vocab()
        return UNKNOWN if UNKNOWN in vocabulary else OTHER_NAMES[UNKNOWN]


def learn_word_pieces(
    texts: Callable[[], Iterable[str]], *, vocab_size: int, lowercase: bool, where: str
) -> "Tokenizer":
    """Learn a WordPiece tokenizer: special pieces, letters, and frequent combinations of pieces.

    The rarest letters, together one character in ten thousand, are unknown. A small
    corpus yields fewer pieces than `vocab_size`. `texts` restarts the texts, which are read twice;
    `where` begins an error message.

    Raises:
        ConfigError: there are more letters than `vocab_size` allows.

    Source: Schuster and Nakajima 2012 (Japanese and Korean voice search), section 4.
    Note: pieces are merged by frequency, as in byte-pair encoding, not by likelihood.
    """
    # A compiled library that only models with a pretrained encoder need.
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
    from tokenizers.trainers import WordPieceTrainer

    normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    words = pre_tokenizers.BertPreTokenizer()
    letters = _list_letters(normalizer.normalize_str(text) for text in texts())
    least = len(SPECIAL_PIECES) + 2 * len(letters)
    if vocab_size <= least:
        raise ConfigError(
            f"{where}.vocab_size: found {vocab_size}, expected more than {least}, the special "
            "pieces and twice the letters of the corpus, such as "
            f"{max(8000, 2 * least)}."
        )
    inner = [CONTINUED + letter for letter in letters]
    learner = Tokenizer(models.WordPiece({}, unk_token=UNKNOWN))
    learner.normalizer, learner.pre_tokenizer = normalizer, words
    trainer = WordPieceTrainer(
        vocab_size=vocab_size,
        # letters within words are named first, or the library numbers them by chance
        special_tokens=[*SPECIAL_PIECES, *inner],
        initial_alphabet=letters,
        limit_alphabet=len(letters),
        continuing_subword_prefix=CONTINUED,
        show_progress=False,
    )
    learner.train_from_iterator(texts(), trainer)
    learnt: dict[str, int] = learner.get_vocab()
    pieces = [*SPECIAL_PIECES, *letters, *inner, *sorted(learnt, key=learnt.__getitem__)]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token=UNKNOWN))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, words
    tokenizer.decoder = decoders.WordPiece(prefix=CONTINUED)
    tokenizer.add_special_tokens(SPECIAL_PIECES)
    return tokenizer


def _list_letters(texts: Iterable[str]) -> list[str]:
    """Return the letters of texts, sorted, without the rarest."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    counts = Counter({letter: n for letter, n in counts.items() if not letter.isspace()})
    allowed, kept = counts.total() * RARE_LETTERS, []
    for letter in sorted(counts, key=lambda letter: (counts[letter], letter)):
        allowed -= counts[letter]
        if allowed < 0:
            kept.append(letter)
    return sorted(kept)


def learn_from_corpus(
    corpus: Corpus, *, vocab_size: int, lowercase: bool, seed: int, where: str
) -> str:
    """Return a tokenizer as JSON, learned on random shards of a corpus's training part."""
    return learn_tokenizer(
        lambda: _read_paragraphs(corpus, seed),
        vocab_size=vocab_size,
        lowercase=lowercase,
        where=where,
    )


def learn_tokenizer(
    texts: Callable[[], Iterable[str]], *, vocab_size: int, lowercase: bool, where: str
) -> str:
    """Return a tokenizer that frames texts, as JSON; see `learn_word_pieces`."""
    tokenizer = learn_word_pieces(texts, vocab_size=vocab_size, lowercase=lowercase, where=where)
    _frame(tokenizer)
    log.info("pretrain tokenizer pieces=%d", tokenizer.get_vocab_size())
    return json.dumps(json.loads(tokenizer.to_str()), sort_keys=True, ensure_ascii=False, indent=2)


def read_pieces(tokenizer_json: str, where: str) -> PieceSet:
    """Read a tokenizer for pre-training.

    Raises:
        ConfigError: it lacks a piece that masking or framing needs.
    """
    from tokenizers import Tokenizer

    # sentences are cut one by one, and all but a document's first have a space before them
    tokenizer = Tokenizer.from_str(begin_words(tokenizer_json))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    ids = {}
    for piece, other in OTHER_NAMES.items():
        number = vocabulary.get(piece, vocabulary.get(other))
        if number is None:
            raise ConfigError(
                f"{where}: found no piece {piece} or {other}, which masked language modeling "
                "needs; use an encoder that has it, or learn one with the key 'tokenizer'."
            )
        ids[piece] = number
    special = {*ids.values(), *tokenizer.get_added_tokens_decoder()}
    special |= {number for piece, number in vocabulary.items() if UNUSED.match(piece)}
    ordinary = np.array(sorted(set(vocabulary.values()) - special), dtype=np.int64)
    return PieceSet(
        tokenizer=tokenizer,
        padding=ids[PADDING],
        first=ids[FIRST],
        last=ids[LAST],
        mask=ids[MASK],
        ordinary=ordinary,
    )


def _read_paragraphs(corpus: Corpus, seed: int) -> Iterator[str]:
    shards = np.random.default_rng([seed]).permutation(corpus.count_shards(TRAIN))[:MOST_SHARDS]
    for shard in shards:
        for document in corpus.read_shard(TRAIN, int(shard)):
            yield from document.paragraphs


def _frame(tokenizer: "Tokenizer") -> None:
    """Put the special pieces around one text or two."""
    from tokenizers import processors

    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{FIRST} $A {LAST}",
        pair=f"{FIRST} $A {LAST} $B:1 {LAST}:1",
        special_tokens=[(piece, tokenizer.token_to_id(piece)) for piece in (FIRST, LAST)],
    )
