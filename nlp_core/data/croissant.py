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
from nlp_core.files import MANIFEST

CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
FORMATS = {
    ".json": "application/json",
    ".jsonl": "application/jsonlines",
    ".tsv": "text/tab-separated-values",
    ".whl": "application/zip",
    ".xz": "application/x-xz",
    ".zip": "application/zip",
}
PARQUET = "application/x-parquet"

Entity = dict[str, Any]  # Any: JSON-LD holds texts, lists and further objects


def describe_source(name: str, dataset: DatasetConfig, places: Places, base: Path) -> Entity:
    """Return the Croissant description of a source.

    Args:
        name: of the source.
        dataset: its file in sources/.
        places: where its files are.
        base: the folder that paths are relative to: that of the description.
    """
    processed = places.data_dir / "processed" / name
    files = list(_list_files(name, dataset, places, base))
    records: list[Entity] = []
    if (processed / MANIFEST).is_file():
        for split, digest in _list_splits(read_mapping(processed / MANIFEST)):
            path = processed / f"{split}.parquet"
            files.append(_describe_file(path.name, _relate(path, base), PARQUET, digest))
            records.append(_describe_records(split, path))
    note = f" {' '.join(dataset.note.split())}" if dataset.note else ""
    return {
        "@context": CONTEXT,
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
            place = _relate(places.raw_dir(name) / member, base)
            yield _describe_file(member, place, _name_format(member), sha256)
    missing = {*dataset.member_names}
    for file in dataset.files:
        wanted = [member for member in file.wanted if member.name in missing]
        missing -= {member.name for member in wanted}
        if not wanted:
            continue
        digest = _pick(file.sha256)
        if file.unpack == "none" and digest is not None:
            place = file.url or _relate(places.raw_dir(name) / file.name, base)
            yield _describe_file(file.name, place, _name_format(file.name), digest.digest)
        elif digest is not None:
            yield from _describe_archive(file, digest, wanted)
        else:
            folder = _relate(places.raw_dir(name), base)
            yield from (_describe_member(member, file, folder) for member in wanted)


def _describe_archive(
    file: FileConfig, digest: DigestConfig, wanted: list[MemberConfig]
) -> Iterator[Entity]:
    address = file.url or file.mirror
    if file.package:
        address = f"https://pypi.org/project/{file.package.name}/{file.package.version}/"
    yield _describe_file(file.name, address, _name_format(file.name), digest.digest)
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
    assert digest is not None, member.name  # FileConfig pins the archive or its members
    place = f"{folder}/{member.name}"
    found = _describe_file(member.name, place, _name_format(member.name), digest.digest)
    label = f" It is {digest.label}." if digest.label else ""
    return found | {"description": f"{member.path} of {file.url or file.mirror}.{label}"}


def _describe_file(name: str, place: str, form: str, digest: str) -> Entity:
    return {
        "@type": "cr:FileObject",
        "@id": name,
        "name": name,
        "contentUrl": place,
        "encodingFormat": form,
        "sha256": digest,
    }


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
            for column in pq.read_schema(path)
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


def _list_splits(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield name and sha256 of each split of a processed task; vectors and encoders have none."""
    for split, facts in sorted(manifest.get("splits", {}).items()):
        yield split, facts["sha256"]


def _pick(accepted: list[DigestConfig]) -> DigestConfig | None:
    """Return the digest of the official release, or else the first one."""
    official = [item for item in accepted if item.label is None]
    return next(iter([*official, *accepted]), None)


def _name_format(name: str) -> str:
    return FORMATS.get(PurePosixPath(name).suffix, "text/plain")


def _relate(path: Path, base: Path) -> str:
    return PurePosixPath(os.path.relpath(path, base)).as_posix()
