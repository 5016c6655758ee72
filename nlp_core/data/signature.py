"""Well-known files that are not text, by their first bytes and by the members of their ZIP."""

import re
import zipfile

NUM_BYTES = 16
SIGNATURES: dict[bytes, str] = {
    rb"%PDF-\d\.\d\s": "a PDF",
    rb"\x89PNG\r\n": "a PNG image",
    rb"\xff\xd8\xff": "a JPEG image",
    rb"GIF8[79]a": "a GIF image",
    rb"SQLite format 3\x00": "an SQLite database",
    rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "an old Office file (.doc, .xls or .ppt)",
    rb"\{\\rtf1": "an RTF document",
    rb"PAR1\x15": "a parquet file",
    rb"ARROW1\x00": "an arrow file",
    rb"\x89HDF\r\n": "an HDF5 file",
    rb"\x93NUMPY": "a NumPy array",
    rb"\x80[\x02-\x05]": "a pickle",
    rb"BZh[1-9]1AY&SY": "a bzip2 archive",
    rb"\xfd7zXZ\x00": "an xz archive",
    rb"\x28\xb5\x2f\xfd": "a zstd archive",
    rb"7z\xbc\xaf": "a 7z archive",
    rb"Rar!\x1a\x07": "a RAR archive",
}
"""Patterns of first bytes, all within the first line; no text begins with one of them."""
MIMETYPE, CONTENT_TYPES = "mimetype", "[Content_Types].xml"
PARTS = {"xl": "a spreadsheet", "word": "a Word document", "ppt": "a presentation"}
"""Folders of Office files, which are ZIP files."""
MIMETYPES = {
    b"application/vnd.oasis.opendocument.spreadsheet": "a spreadsheet",
    b"application/vnd.oasis.opendocument": "an OpenDocument file",
    b"application/epub+zip": "an e-book",
}
NAMED = {"a parquet file": ".parquet", "an arrow file": ".arrow"}
AS_TABLE = "save it as CSV in UTF-8, with a row for each example"
AS_TEXT = "save its text as a table, such as CSV in UTF-8, with a row for each example"


def name_content(first: bytes) -> str | None:
    """Return what a file is by its first bytes; None for text and what is not known."""
    found = (name for pattern, name in SIGNATURES.items() if re.match(pattern, first))
    return next(found, None)


def name_office_file(archive: zipfile.ZipFile) -> str | None:
    """Return which Office file or e-book a ZIP file is; None for any other."""
    names = archive.namelist()
    if CONTENT_TYPES in names:
        folders = {name.partition("/")[0] for name in names}
        return next((name for part, name in PARTS.items() if part in folders), "an Office file")
    if names and names[0] == MIMETYPE:
        stated = archive.read(MIMETYPE) if archive.getinfo(MIMETYPE).file_size < 200 else b""
        return next((name for mark, name in MIMETYPES.items() if stated.startswith(mark)), None)
    return None


def describe_content(name: str) -> str:
    """Return what was found, what was expected, and what to do."""
    if name in NAMED:
        advice = f"name it {NAMED[name]}"
    elif name.endswith("archive"):
        advice = "unpack it, or pack it as ZIP or gzip"
    else:
        advice = AS_TABLE if name in ("a spreadsheet", "an SQLite database") else AS_TEXT
    return f"found {name}, expected text in UTF-8; {advice}."
