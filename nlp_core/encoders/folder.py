"""Where a pretrained encoder is: the user's folder, or a name on the Hugging Face hub."""

import json
from pathlib import Path
from typing import NamedTuple

from nlp_core.data.pieces import WEIGHTS, count_positions
from nlp_core.encoders.architecture import find_width
from nlp_core.errors import DataError

ENCODER_FILES = ("config.json", WEIGHTS, "tokenizer.json")


class EncoderSize(NamedTuple):
    """What a model file says of an encoder.

    Attributes:
        dim: its width.
        positions: the most pieces that it reads at once.
    """

    dim: int
    positions: int


def find_encoder(name: str) -> Path:
    """Return the folder of a pretrained encoder.

    Args:
        name: a folder, or a name on the hub, whose files are then fetched into the library's own
            cache unless they are there.

    Raises:
        DataError: there is no such folder, a file is missing, or the hub cannot be reached.
    """
    path = Path(name).expanduser()
    if not path.is_dir() and (path.is_absolute() or name.startswith(".") or name.count("/") > 1):
        raise DataError(f"{name}: there is no such folder; check its name.")
    folder = path if path.is_dir() else _fetch(name)
    missing = [file for file in ENCODER_FILES if not (folder / file).is_file()]
    if missing:
        raise DataError(
            f"{folder}: found no {' and no '.join(missing)}, expected {', '.join(ENCODER_FILES)}. "
            "AutoModel and AutoTokenizer of the library transformers write them by "
            "`save_pretrained(FOLDER)`."
        )
    return folder


def read_size(folder: Path) -> EncoderSize:
    """Return width and length of an encoder.

    Raises:
        DataError: its configuration is none that the library transformers knows.
    """
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        return EncoderSize(find_width(config), count_positions(config))
    except (ValueError, KeyError, AttributeError, OSError) as err:
        raise DataError(
            f"{path}: found no configuration of an encoder that the library transformers has "
            f"({type(err).__name__}); name the folder of another encoder."
        ) from err


def _fetch(name: str) -> Path:
    # A library of transformers, which only models with a pretrained encoder need.
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    hint = "Name a folder with its files instead"
    try:
        return Path(snapshot_download(name, allow_patterns=list(ENCODER_FILES)))
    except HFValidationError as err:
        raise DataError(f"{name}: found neither a folder nor a name on the hub. {hint}.") from err
    except LocalEntryNotFoundError as err:
        raise DataError(
            f"{name}: there is no such folder, the hub cannot be reached, and its cache does not "
            f"have that encoder. {hint}, or fetch it where there is a network: `hf download "
            f"{name}`."
        ) from err
    except HfHubHTTPError as err:
        reason = " ".join(str(err).split())
        raise DataError(f"{name}: the hub does not give it ({reason}). {hint}.") from err
