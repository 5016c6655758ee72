"""Describe a source in Croissant, the JSON-LD of data sets that catalogues and loaders read.

The distribution is what is downloaded and, once it is processed, the parquet file of each split
with a record set of its columns.
Source: https://docs.mlcommons.org/croissant/docs/croissant-spec.html, version 1.0.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nlp_core.config.base import read_mapping
from nlp_core.config.dataset import DatasetConfig, DigestConfig, FileConfig, MemberConfig
from nlp_core.data.source import Places
from nlp_core.files import MANIFEST, name_local

TERMS = (
    "citeAs column equivalentProperty extract field fileObject fileProperty fileSet format "
    "includes isLiveDataset jsonPath key md5 parentField path recordSet references regex repeated "
    "replace samplingRate separator source subField transform"
)
CONTEXT: Mapping[str, object] = {
    **{term: f"cr:{term}" for term in TERMS.split()},
    "@language": "en",
    "@vocab": "https://schema.org/",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
}
FORMATS = {
    ".json": "application/json",
    ".jsonl": "application/jsonlines",
    ".parquet": "application/x-parquet",
    ".tsv": "text/tab-separated-values",
    ".whl": "application/zip",
    ".xz": "application/x-xz",
    ".zip": "application/zip",
}

Entity = dict[str, Any]  # Any: JSON-LD holds texts, lists and further objects


def describe_source(name: str, dataset: DatasetConfig, places: Places, base: Path) -> Entity:
    """Return the Croissant description of a source; paths are relative to the folder `base`."""
    processed = places.data_dir / "processed" / name
    listed = list(_list_files(name, dataset, places, base))
    # a file needs a digest, or one of the archive that it is in
    files = [item for item in listed if "sha256" in item or "containedIn" in item]
    records: list[Entity] = []
    if (processed / MANIFEST).is_file():
        # vectors and encoders have no splits
        splits = read_mapping(processed / MANIFEST).get("splits", {})
        for split, facts in sorted(splits.items()):
            path = processed / f"{split}.parquet"
            files.append(_describe_file(path.name, _make_relative(path, base), facts["sha256"]))
            records.append(_describe_records(split, path))
    note = f" {' '.join(dataset.note.split())}" if dataset.note else ""
    unknown = [item["description"] for item in listed if item not in files]
    note += f" Not listed, since no digest is known: {' '.join(unknown)}" if unknown else ""
    return {
        "@context": dict(sorted(CONTEXT.items())),
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": name,
        "description": f"{dataset.title}{note}",
        "license": dataset.licence,
        "citeAs": " ".join(dataset.citation.split()),
        "url": dataset.homepage,
        "distribution": files,
        "recordSet": records,
    }


def _list_files(name: str, dataset: DatasetConfig, places: Places, base: Path) -> Iterator[Entity]:
    """Yield the files of the first way to get each member."""
    if dataset.generator:
        for member, sha256 in sorted(dataset.generator.sha256.items()):
            place = _make_relative(places.raw_dir(name) / member, base)
            yield _describe_file(member, place, sha256)
    missing = {*dataset.member_names}
    for file in dataset.files:
        wanted = [member for member in file.wanted if member.name in missing]
        missing -= {member.name for member in wanted}
        if not wanted:
            continue
        digest = _pick(file.sha256)
        if file.unpack == "none" and digest is not None:
            place = file.url or _make_relative(places.raw_dir(name) / file.name, base)
            yield _describe_file(file.name, place, digest.digest)
        elif digest is not None:
            yield from _describe_archive(file, digest, wanted)
        else:
            folder = _make_relative(places.raw_dir(name), base)
            yield from (_describe_member(member, file, folder) for member in wanted)


def _describe_archive(
    file: FileConfig, digest: DigestConfig, wanted: list[MemberConfig]
) -> Iterator[Entity]:
    address = file.url or file.mirror
    if file.package:
        address = f"https://pypi.org/project/{file.package.name}/{file.package.version}/"
    yield _describe_file(file.name, address, digest.digest)
    for member in wanted:
        yield {
            "@type": "cr:FileObject",
            "@id": member.name,
            "name": member.name,
            "contentUrl": member.path,
            "containedIn": {"@id": file.name},
            "encodingFormat": _name_format(member.name),
        }


def _describe_member(member: MemberConfig, file: FileConfig, folder: str) -> Entity:
    """Return a member of an archive whose own digest is not pinned: the unpacked file."""
    digest = _pick(member.sha256)
    found = _describe_file(
        member.name, f"{folder}/{member.name}", digest.digest if digest else None
    )
    label = f" It is {digest.label}." if digest and digest.label else ""
    return found | {"description": f"{member.path} of {file.url or file.mirror}.{label}"}


def _describe_file(name: str, place: str, digest: str | None) -> Entity:
    found = {
        "@type": "cr:FileObject",
        "@id": name,
        "name": name,
        "contentUrl": place,
        "encodingFormat": _name_format(name),
    }
    return found if digest is None else found | {"sha256": digest}


def _describe_records(split: str, path: Path) -> Entity:
    return {
        "@type": "cr:RecordSet",
        "@id": split,
        "name": split,
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{split}/{column.name}",
                "name": column.name,
                "source": {"fileObject": {"@id": path.name}, "extract": {"column": column.name}},
                **_describe_type(column.type),
            }
            for column in pq.read_schema(name_local(path))
        ],
    }


def _describe_type(form: pa.DataType) -> Entity:
    if pa.types.is_list(form):
        return {**_describe_type(form.value_type), "repeated": True}
    if pa.types.is_boolean(form):
        return {"dataType": "sc:Boolean"}
    if pa.types.is_integer(form):
        return {"dataType": "sc:Integer"}
    return {"dataType": "sc:Float" if pa.types.is_floating(form) else "sc:Text"}


def _pick(accepted: list[DigestConfig]) -> DigestConfig | None:
    """Return the digest of the official release, or else the first one."""
    official = [item for item in accepted if item.label is None]
    return next(iter([*official, *accepted]), None)


def _name_format(name: str) -> str:
    return FORMATS.get(PurePosixPath(name).suffix, "text/plain")


def _make_relative(path: Path, base: Path) -> str:
    return PurePosixPath(os.path.relpath(path, base)).as_posix()
