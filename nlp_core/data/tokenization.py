"""Turn a text into tokens. Case is kept; every text has at least one token."""

import re
import sys
import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from nlp_core.errors import ConfigError, suggest
from nlp_core.files import digest_file
from nlp_core.registry import Registry
from reglue_runtime.text import (
    EMPTY_TOKEN,
    SPLITTERS,
    STEPS,
    Offsets,
    Substitution,
    add_steps,
    read_steps,
)
from reglue_runtime.text import LOCATORS as BUNDLED_LOCATORS

Tokenizer = Callable[[str], list[str]]


class TokenizerRegistry(Registry[Tokenizer]):
    """Tokenizers; a name may begin with steps, such as nfkc+words."""

    def get(self, name: str) -> Tokenizer:
        steps, last = read_steps(name)
        for step in steps:
            if step not in STEPS:
                raise ConfigError(f"unknown step '{step}' of '{name}'. {suggest(step, STEPS)}")
        tokenize = super().get(last)
        if not steps:
            return tokenize
        split = add_steps(steps, tokenize)
        split.__module__ = tokenize.__module__  # a plug-in's file decides what is cached
        return split


class LocatorRegistry(Registry["Locator"]):
    def get(self, name: str) -> "Locator":
        if read_steps(name)[0]:
            raise ConfigError(
                f"found '{name}', whose steps move characters, expected a tokenizer without steps: "
                "answers and entities are parts of the unchanged text."
            )
        return super().get(name)


TOKENIZERS = TokenizerRegistry("tokenizer")
LIBRARIES = {
    "words": ("nltk",),
    "chinese_words": ("jieba",),
    "japanese_words": ("fugashi", "unidic-lite"),
}
"""By tokenizer the packages whose version decides how a text is cut."""

Locator = Callable[[str], list[Offsets]]
LOCATORS = LocatorRegistry("tokenizer with offsets")
"""Tokenizers whose tokens have offsets in the text, so that an answer can be cut out of it."""

for _name, _split in SPLITTERS.items():
    TOKENIZERS.register(_name)(_split)
for _name, _locate in BUNDLED_LOCATORS.items():
    LOCATORS.register(_name)(_locate)


@TOKENIZERS.register("words")
def split_words(text: str) -> list[str]:
    """Split a text into Penn Treebank words: "isn't" gives "is", "n't".

    Note: double quotes become `` and '', as in the treebank and in GloVe.
    """
    return _load_treebank()(text) or [EMPTY_TOKEN]


def describe_tokenizer(name: str) -> list[Substitution] | None:
    """Return the substitutions that rebuild the tokenizer `words`; None for the others.

    Raises:
        ConfigError: a plug-in's tokenizer, which needs its own code.
    """
    last = read_steps(name)[1]
    if TOKENIZERS.get(last) in SPLITTERS.values():
        return None
    if last != "words":
        raise ConfigError(
            f"the tokenizer '{name}' needs a plug-in or a library, which a bundle cannot contain; "
            "expected words, plain_words, unicode_words, characters or spaces."
        )
    treebank = _import_treebank()
    before = [*treebank.STARTING_QUOTES, *treebank.PUNCTUATION]
    before += [treebank.PARENS_BRACKETS, treebank.DOUBLE_DASHES]
    contractions = [*treebank.CONTRACTIONS2, *treebank.CONTRACTIONS3]
    after = [*treebank.ENDING_QUOTES, *((pattern, r" \1 \2 ") for pattern in contractions)]
    around: Substitution = (r"\A(.*)\Z", int(re.DOTALL), r" \1 ")
    steps = [
        [(item.pattern, _keep_flags(item.flags), into) for item, into in part]
        for part in (before, after)
    ]
    return [*steps[0], around, *steps[1]]


def _keep_flags(flags: int) -> int:
    """Return the flags of a pattern of nltk's engine that `re` knows too."""
    return flags & int(re.IGNORECASE | re.MULTILINE | re.DOTALL | re.VERBOSE | re.UNICODE)


def _locate_chinese(text: str) -> list[Offsets]:
    """Return the offsets of Chinese words, which have no spaces between them.

    Source: the dictionary and the hidden Markov model of jieba.
    """
    found = _load_jieba()(text)
    return [Offsets(start, end) for word, start, end in found if not word.isspace()]


def _locate_japanese(text: str) -> list[Offsets]:
    """Return the offsets of Japanese morphemes.

    Source: MeCab with the dictionary UniDic Lite, by fugashi.
    """
    places, end = [], 0
    for surface, space in _load_mecab()(text):
        start = end + len(space)
        end = start + len(surface)
        places.append(Offsets(start, end))
    return places


def describe_code(name: str) -> dict[str, str]:
    """Return what a tokenizer's tokens depend on: the digest of its file, versions of libraries.

    Raises:
        ConfigError: a library is not installed.
    """
    file = sys.modules[TOKENIZERS.get(name).__module__].__file__
    assert file is not None, name
    last = read_steps(name)[1]
    try:
        versions = {item: version(item) for item in LIBRARIES.get(last, ())}
    except PackageNotFoundError as err:
        raise _refuse_missing(last, str(err.name), last.removesuffix("_words")) from err
    return {"file": digest_file(Path(file)), **versions}


def _register_located(name: str, locate: Locator) -> None:
    def split(text: str) -> list[str]:
        return [text[place.start : place.end] for place in locate(text)] or [EMPTY_TOKEN]

    LOCATORS.register(name)(locate)
    TOKENIZERS.register(name)(split)


_register_located("chinese_words", _locate_chinese)
_register_located("japanese_words", _locate_japanese)


def _refuse_missing(name: str, library: str, extra: str) -> ConfigError:
    return ConfigError(
        f"tokens: {name} needs the library {library}, which is not installed; run "
        f"`pip install 'reglue[{extra}]'`."
    )


@cache
def _load_jieba() -> Callable[[str], list[tuple[str, int, int]]]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its old escapes and of pkg_resources
            import jieba
    except ImportError as err:
        raise _refuse_missing("chinese_words", "jieba", "chinese") from err
    cutter = jieba.Tokenizer()
    # as its own start, without a pickled copy in the folder for temporary files
    cutter.FREQ, cutter.total = cutter.gen_pfdict(cutter.get_dict_file())
    cutter.initialized = True
    return lambda text: list(cutter.tokenize(text))


@cache
def _load_mecab() -> Callable[[str], list[tuple[str, str]]]:
    try:
        import fugashi
        import unidic_lite
    except ImportError as err:
        raise _refuse_missing("japanese_words", "fugashi", "japanese") from err
    tagger = fugashi.GenericTagger(f'-r "{unidic_lite.DICDIR}/dicrc" -d "{unidic_lite.DICDIR}"')
    return lambda text: [(node.surface, node.white_space) for node in tagger(text)]


@cache
def _import_treebank() -> Any:  # nltk has no types
    """Return nltk's class of this tokenizer, without all of nltk, which takes 2 s to load.

    Empty packages stand for nltk's own while the class is imported, and are removed afterwards, so
    that another import of nltk finds it whole.
    """
    if "nltk" in sys.modules:
        return import_module("nltk.tokenize.destructive").NLTKWordTokenizer
    spec = find_spec("nltk")
    assert spec is not None, "nltk is a dependency"
    for name, folder in (("nltk", "."), ("nltk.tokenize", "tokenize")):
        package = ModuleType(name)
        package.__path__ = [
            str(Path(root, folder)) for root in spec.submodule_search_locations or ()
        ]
        sys.modules[name] = package
    try:
        return import_module("nltk.tokenize.destructive").NLTKWordTokenizer
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "nltk"]:
            del sys.modules[name]


@cache
def _load_treebank() -> Tokenizer:
    tokenizer = _import_treebank()()
    return lambda text: list(tokenizer.tokenize(text))
