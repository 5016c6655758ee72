"""The files of a pretrained encoder, and the configuration of one trained from scratch."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from nlp_core.config.base import read_mapping
from nlp_core.data.cache import keep
from nlp_core.data.pieces import WEIGHTS, count_positions
from nlp_core.errors import ConfigError, DataError, suggest
from nlp_core.files import digest_file, digest_json, write_text
from nlp_core.progress import has_progress

ENCODER_FILES = ("config.json", WEIGHTS, "tokenizer.json")
TOKENIZER = "tokenizer.json"
OTHER_TOKENIZERS = (
    *("sentencepiece.bpe.model", "spiece.model", "spm.model", "tokenizer.model"),
    *("merges.txt", "vocab.txt"),
)
"""Names of SentencePiece models, of the merges of a byte-pair encoding (with vocab.json) and of
word pieces, one of which may be there instead of tokenizer.json."""
TOKENIZER_NOTES = (
    "added_tokens.json",
    "special_tokens_map.json",
    "tokenizer_config.json",
    "vocab.json",
)
"""Names of what a conversion to tokenizer.json reads besides one of these."""
MODEL_TYPES = ("albert", "bert", "distilbert", "electra", "roformer")
TOKENIZER_KEYS = ("vocab_size", "pad_token_id")
"""Keys that the tokenizer decides."""
LONGEST = 512
"""Pieces of a text that an encoder without a model file reads, if it has places for as many."""


class EncoderSize(NamedTuple):
    dim: int
    """Width of the hidden states."""
    positions: int
    """The most pieces that it reads at once."""


class EncoderDecoderSize(EncoderSize):
    """The size of an encoder that has a decoder, such as T5."""


def find_encoder(name: str) -> Path:
    """Return a folder, or that of the library's cache for a name on the Hugging Face hub.

    For a folder with a SentencePiece model, merges or word pieces instead of tokenizer.json it is
    one of our cache, with a tokenizer.json that was made of them.

    Raises:
        DataError: the folder or a file is missing or cannot be converted, or the hub
            cannot be reached.
    """
    path = Path(name).expanduser()
    if not path.is_dir() and (path.is_absolute() or name.startswith(".") or name.count("/") > 1):
        raise DataError(f"{name}: no such folder; check its name.")
    folder = path if path.is_dir() else _fetch(name)
    missing = [file for file in ENCODER_FILES if not (folder / file).is_file()]
    if missing == [TOKENIZER] and (found := _find_tokenizer(folder)):
        return _convert_tokenizer(folder, found)
    if missing:
        raise DataError(
            f"{folder}: found no {' and no '.join(missing)}, expected {', '.join(ENCODER_FILES)}. "
            "AutoModel and AutoTokenizer of the library transformers write them by "
            "`save_pretrained(FOLDER)`."
        )
    return folder


def _find_tokenizer(folder: Path) -> str | None:
    return next((name for name in OTHER_TOKENIZERS if (folder / name).is_file()), None)


def _convert_tokenizer(folder: Path, name: str) -> Path:
    files = sorted(item for item in folder.iterdir() if item.is_file())
    key = digest_json({item.name: digest_file(item) for item in files} | {TOKENIZER: 1})

    def make(target: Path) -> None:
        write_text(target / TOKENIZER, _read_tokenizer(folder, name))
        for item in ("config.json", WEIGHTS):
            shutil.copyfile(folder / item, target / item)

    return keep("encoders", key, make)


def _read_tokenizer(folder: Path, name: str) -> str:
    """Return a tokenizer of other files, such as vocab.txt, as JSON of the library tokenizers."""
    # see `read_architecture`
    from transformers import AutoTokenizer

    try:
        found = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        text: str = found.backend_tokenizer.to_str()
    except (ValueError, TypeError, ImportError, OSError, KeyError, AttributeError) as err:
        reason = " ".join(str(err).split())[:200]
        raise DataError(
            f"{folder / name}: the library transformers does not read it ({reason}). Expected the "
            "tokenizer of the config.json next to it. A SentencePiece model needs a library: `pip "
            "install 'reglue[sentencepiece]'`. Or write a tokenizer.json by `save_pretrained`."
        ) from err
    return text


def read_size(folder: Path) -> EncoderSize:
    """Return width and length of an encoder.

    Raises:
        DataError: the library transformers does not know its configuration.
    """
    # a large library that only models with a pretrained encoder need
    from huggingface_hub.errors import StrictDataclassError

    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        found = _read_config(config)
        size = EncoderDecoderSize if found.is_encoder_decoder else EncoderSize
        return size(int(found.hidden_size), count_positions(config))
    except (
        *(ValueError, TypeError, KeyError, AttributeError, OSError),
        StrictDataclassError,
    ) as err:
        raise DataError(
            f"{path}: found no configuration of an encoder that the library transformers has "
            f"({type(err).__name__}); name the folder of another encoder."
        ) from err


def _fetch(name: str) -> Path:
    # A library of transformers, which only models with a pretrained encoder need.
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
    from huggingface_hub.utils.tqdm import disable_progress_bars

    if not has_progress():
        disable_progress_bars()
    hint = "Name a folder with its files instead"
    try:
        patterns = [*ENCODER_FILES, *OTHER_TOKENIZERS, *TOKENIZER_NOTES]
        return Path(snapshot_download(name, allow_patterns=patterns))
    except HFValidationError as err:
        raise DataError(f"{name}: found neither a folder nor a name on the hub. {hint}.") from err
    except LocalEntryNotFoundError as err:
        raise DataError(
            f"{name}: no such folder, the hub cannot be reached, and its cache does not "
            f"have that encoder. {hint}, or fetch it where there is a network: `hf download "
            f"{name}`."
        ) from err
    except HfHubHTTPError as err:
        reason = " ".join(str(err).split())
        raise DataError(f"{name}: the hub does not give it ({reason}). {hint}.") from err


def read_architecture(path: Path, vocab_size: int, padding: int) -> dict[str, Any]:
    """Return the complete configuration of transformers for the values of a JSON file.

    `model_type` in it names the type of encoder; the other keys are those of that type. The size of
    the vocabulary and the id of padding are the tokenizer's.

    Raises:
        ConfigError: the file is missing, or that type of encoder does not have a key or value.
    """
    values = read_mapping(path)
    model_type = values.get("model_type")
    if model_type not in MODEL_TYPES:
        raise ConfigError(
            f"{path}: model_type: found {model_type!r}. {suggest(str(model_type), MODEL_TYPES)}"
        )
    # a large library that only models with a pretrained encoder need
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoConfig

    plain = AutoConfig.for_model(model_type)
    allowed = {*plain.to_dict(), *plain.attribute_map} - {*TOKENIZER_KEYS, "_name_or_path"}
    for key in values:
        if key in TOKENIZER_KEYS:
            raise ConfigError(f"{path}: {key}: found a value; remove it, the tokenizer sets it.")
        if key not in allowed:
            raise ConfigError(
                f"{path}: {key}: unknown key of {model_type}. {suggest(key, allowed)}"
            )
    own = {key: value for key, value in values.items() if key != "model_type"}
    try:
        config = AutoConfig.for_model(
            model_type, **own, vocab_size=vocab_size, pad_token_id=padding
        )
        complete: dict[str, Any] = config.to_dict()
    except (ValueError, TypeError, StrictDataclassError) as err:
        reason = " ".join(str(err).split())
        raise ConfigError(f"{path}: {reason}. Expected values of a valid {model_type}.") from err
    return complete


def find_width(config: Mapping[str, Any]) -> int:
    """Return the width of an encoder's hidden states, whatever its configuration calls it."""
    return int(_read_config(config).hidden_size)


def _read_config(config: Mapping[str, Any]) -> Any:  # Any: each type of encoder has its class
    # see `read_architecture`
    from transformers import AutoConfig

    values = {key: value for key, value in config.items() if key != "model_type"}
    return AutoConfig.for_model(config["model_type"], **values)
