"""Read a split of Hugging Face datasets: a folder that `save_to_disk` wrote, or one .arrow file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from nlp_core.data.readers.lines import parse_json
from nlp_core.errors import DataError

SUFFIX = ".arrow"
STATE, SPLITS = "state.json", "dataset_dict.json"
METADATA = b"huggingface"
MAGIC = b"ARROW1"
Names = dict[str, list[str]]
"""Names of the classes, by column."""


def is_dataset(folder: Path) -> bool:
    """Return whether a folder is a split of datasets, or holds several."""
    marks = [folder / STATE, folder / SPLITS]
    return any(mark.is_file() for mark in marks) or any(folder.glob(f"*{SUFFIX}"))


def read_arrow(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:  # Any: cells
    """Yield number, from 1, and cells of each row; classes are names, and -1 is None.

    Raises:
        DataError: a file is missing or damaged, or the folder holds several splits.
    """
    number = 0
    try:
        for file in _list_files(path):
            with pa.OSFile(str(file)) as source:
                opened = pa.ipc.open_file if _is_random(file) else pa.ipc.open_stream
                reader = opened(source)
                names = _read_names(reader.schema)
                check_names(reader.schema.names, file)
                for batch in _list_batches(reader):
                    # damaged offsets would crash the process
                    batch.validate(full=True)
                    for cells in batch.to_pylist():
                        number += 1
                        yield number, _name_classes(cells, names, f"{file}: row {number}")
    except (pa.ArrowException, OSError, ValueError, MemoryError) as err:
        reason = " ".join(str(err).split())
        raise DataError(
            f"{path}: not a readable arrow file ({reason}). Write or copy it again."
        ) from err


def check_names(names: list[str], path: Path) -> None:
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise DataError(f"{path}: found two columns '{twice}', expected one; rename one.")


def _list_files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    if (path / SPLITS).is_file():
        found = [item.parent.name for item in sorted(path.glob(f"*/{STATE}"))]
        raise DataError(
            f"{path}: found the splits {', '.join(found) or 'none'}, expected one; name its folder"
            f"{f', such as {path / found[0]}' if found else ''}."
        )
    if not (path / STATE).is_file():
        files = sorted(path.glob(f"*{SUFFIX}"))
        if len(files) > 1:
            raise DataError(
                f"{path}: found {len(files)} files and no {STATE} that says which are one split; "
                f"name one of them, such as {files[0]}."
            )
        return files
    state = parse_json((path / STATE).read_text(encoding="utf-8"))
    noted = state.get("_data_files") if isinstance(state, dict) else None
    items = noted if isinstance(noted, list) else []
    named = [item.get("filename") for item in items if isinstance(item, dict)]
    names = [name for name in named if isinstance(name, str) and name == Path(name).name]
    if not names or len(names) != len(items):
        raise DataError(f"{path / STATE}: found no names of data files. Write the folder again.")
    return [path / name for name in names]


def _is_random(file: Path) -> bool:
    with file.open("rb") as source:
        return source.read(len(MAGIC)) == MAGIC


def _list_batches(reader: Any) -> Iterator[pa.RecordBatch]:  # Any: a reader of a stream or a file
    if isinstance(reader, pa.RecordBatchFileReader):
        yield from (reader.get_batch(idx) for idx in range(reader.num_record_batches))
    else:
        yield from reader


def _read_names(schema: pa.Schema) -> Names:
    """Return the names of classes, as datasets stores them with a schema."""
    note = parse_json((schema.metadata or {}).get(METADATA, b"{}").decode())
    info = note.get("info") if isinstance(note, dict) else None
    features = info.get("features") if isinstance(info, dict) else None
    if not isinstance(features, dict):
        return {}
    found = {column: _find_names(feature) for column, feature in features.items()}
    return {column: names for column, names in found.items() if names is not None}


def _find_names(feature: Any) -> list[str] | None:  # Any: JSON
    """Return the names of a class label, or of a sequence of them."""
    if isinstance(feature, list) and len(feature) == 1:
        return _find_names(feature[0])
    if not isinstance(feature, dict):
        return None
    if feature.get("_type") == "ClassLabel" and isinstance(feature.get("names"), list):
        return [str(name) for name in feature["names"]]
    return _find_names(feature.get("feature"))


def _name_classes(cells: dict[str, Any], names: Names, where: str) -> dict[str, Any]:
    for column in names.keys() & cells.keys():
        cells[column] = _name(cells[column], names[column], f"{where}: '{column}'")
    return cells


def _name(cell: Any, names: list[str], where: str) -> Any:  # Any: numbers, or lists of them
    if isinstance(cell, list):
        return [_name(item, names, where) for item in cell]
    if cell is None or cell == -1:
        return None
    if not isinstance(cell, int) or not 0 <= cell < len(names):
        raise DataError(f"{where}: found {cell!r}, expected a class from 0 to {len(names) - 1}.")
    return names[cell]
