"""Where the files of a source would come from, without fetching any of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from nlp_core.config.dataset import DatasetConfig, FileConfig
from nlp_core.data.source import Places

Origin = Literal[
    "raw folder", "generator", "drop folder", "mirror", "official address", "package", "nowhere"
]
FETCHED: tuple[Origin, ...] = ("official address", "package")
"""The origins that need the network; a mirror may be on it too."""


class Available(NamedTuple):
    """Where a part of a source comes from.

    Attributes:
        origin: the first place that has it.
        detail: the file, the address or the package.
        num_bytes: None: not known.
    """

    source: str
    origin: Origin
    detail: str
    num_bytes: int | None = None


def find_available(name: str, dataset: DatasetConfig, places: Places) -> list[Available]:
    """Return where each file of a source would come from, in the order of its preprocessing.

    Files that are there are not compared with their digests; preprocessing does that.
    """
    raw = places.raw_dir(name)
    if all((raw / member).is_file() for member in dataset.member_names):
        return [Available(name, "raw folder", str(raw))]
    if dataset.generator:
        return [Available(name, "generator", dataset.generator.name)]
    found: list[Available] = []
    missing = [*dataset.member_names]
    for member in dataset.member_names:
        if (path := places.drop_dir(name) / member).is_file():
            found.append(Available(name, "drop folder", str(path), path.stat().st_size))
            missing.remove(member)
    for item, file in _list_offers(name, dataset, places):
        if any(member.name in missing for member in file.wanted):
            found.append(item)
            given = [member.name for member in file.wanted]
            missing = [member for member in missing if member not in given]
    return [*found, *_list_missing(name, dataset, missing, places)]


def _list_offers(
    name: str, dataset: DatasetConfig, places: Places
) -> Iterator[tuple[Available, FileConfig]]:
    """Yield what each place has, the nearest place first."""
    for file in dataset.files:
        if (path := places.drop_dir(name) / file.name).is_file():
            yield Available(name, "drop folder", str(path), path.stat().st_size), file
    for file in dataset.files if places.mirror else []:
        path = Path(str(places.mirror)) / file.mirror
        if path.is_file():
            yield Available(name, "mirror", str(path), path.stat().st_size), file
    for file in dataset.files:
        if file.url:
            yield Available(name, "official address", file.url, file.bytes), file
    for file in dataset.files:
        if file.package:
            pin = f"{file.package.name}=={file.package.version}"
            yield Available(name, "package", pin, file.bytes), file


def _list_missing(
    name: str, dataset: DatasetConfig, missing: list[str], places: Places
) -> Iterator[Available]:
    """Yield what only the user can bring, or a mirror on the network may have."""
    if not missing:
        return
    is_remote = places.mirror is not None and places.mirror.startswith(("http://", "https://"))
    files = [file for file in dataset.files if any(m.name in missing for m in file.wanted)]
    if is_remote:
        yield Available(name, "mirror", f"{places.mirror}/{files[0].mirror}", files[0].bytes)
        return
    wanted = " or ".join(dict.fromkeys([*(file.name for file in files), ", ".join(missing)]))
    yield Available(name, "nowhere", f"put {wanted} into {places.drop_dir(name)}/")
