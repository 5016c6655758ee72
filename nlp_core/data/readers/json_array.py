"""Read a JSON array of objects, such as an export of Label Studio (JSON or JSON-MIN).

The array may be the only one in an object; its items may be lists, whose columns are "1", "2" ...
An object may also hold a table by columns or by rows, as pandas writes it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nlp_core.data.readers.lines import RepeatedKeyError, parse_json, read_lines
from nlp_core.errors import DataError

Object = dict[str, Any]  # Any: JSON holds anything
SPANS, CHOICES = "labels", "choices"
ANSWER = "answer"
"""Column that says whether an annotator accepted a row; Prodigy has it, a task gets it here."""
ACCEPT, IGNORE = "accept", "ignore"


def read_array(path: Path) -> Iterator[tuple[int, Object]]:
    """Yield number, from 1, and columns of each object.

    A task of Label Studio has the columns of its data and one for each control that annotators
    used: a list of entities, a list of choices, or a value. Of several annotations the one marked
    as ground truth counts, or the first that was not cancelled.

    Raises:
        DataError: the file is not a JSON array of objects, or a task is malformed.
    """
    try:
        value = parse_json("\n".join(line.text for line in read_lines(path)), unique=True)
    except RepeatedKeyError as err:
        raise DataError(f"{path}: {err}, expected it once. Correct the file.") from err
    except ValueError as err:
        raise DataError(
            f"{path}: not valid JSON ({err}), expected an array of objects. Export it again."
        ) from err
    items = find_rows(value)
    if items is None:
        raise DataError(f"{path}: found other JSON, expected an array of objects: [{{...}}, ...].")
    if not any(map(_is_task, items)):
        # JSON-MIN leaves a key out where there is no entity
        entities: Object = {key: [] for item in items for key in item if _are_entities(item[key])}
        for number, item in enumerate(items, start=1):
            yield number, entities | {key: _unwrap(cell) for key, cell in item.items()}
        return
    rows = [_Task(path, number, item) for number, item in enumerate(items, start=1)]
    empty: Object = {
        name: [] for row in rows for name, cell in row.answers.items() if isinstance(cell, list)
    }
    for row in rows:
        yield row.number, row.list_columns(empty)


def find_rows(value: Any) -> list[Object] | None:  # Any: JSON
    """Return the objects of an array, or of an object that is a table or has one such array."""
    if isinstance(value, dict):
        if (rows := _read_table(value)) is not None:
            return rows
        arrays = [item for item in value.values() if isinstance(item, list) and len(item) > 1]
        found = [rows for rows in map(find_rows, arrays) if rows]
        return found[0] if len(found) == 1 else None
    if not isinstance(value, list):
        return None
    if value and all(isinstance(item, list) and 1 < len(item) == len(value[0]) for item in value):
        return [{str(key): cell for key, cell in enumerate(item, start=1)} for item in value]
    return value if all(isinstance(item, dict) for item in value) else None


def _read_table(value: Object) -> list[Object] | None:
    """Return the rows of a table that pandas or datasets wrote as one object, or None."""
    if value.keys() >= {"columns", "data"}:
        return _read_split(value["columns"], value["data"])
    parts = [*value.values()]
    if len(parts) < 2:
        return None
    if all(isinstance(part, list) for part in parts):
        is_table = len(parts[0]) > 1 and len({*map(len, parts)}) == 1
        is_table = is_table and not any(_has_objects(cell) for part in parts for cell in part)
        cells = zip(*parts, strict=True) if is_table else ()
        return [dict(zip(value, row, strict=True)) for row in cells] or None
    if not all(isinstance(part, dict) and part for part in parts):
        return None
    if all(map(str.isdigit, value)):
        return parts
    is_table = all(part.keys() == parts[0].keys() for part in parts)
    if is_table and all(map(str.isdigit, parts[0])):
        return [{name: value[name][key] for name in value} for key in parts[0]]
    return None


def _read_split(names: Any, rows: Any) -> list[Object] | None:  # Any: JSON
    """Return the rows of the names of columns and of lists of cells, or None."""
    if not isinstance(names, list) or not isinstance(rows, list):
        return None
    if not all(isinstance(row, list) and len(row) == len(names) for row in rows):
        return None
    return [dict(zip(map(str, names), row, strict=True)) for row in rows]


def _has_objects(cell: Any) -> bool:  # Any: JSON
    """Return whether a cell is or holds an object, which a table of texts and labels has not."""
    return any(isinstance(item, dict) for item in (cell if isinstance(cell, list) else [cell]))


def _is_task(item: Object) -> bool:
    return isinstance(item.get("data"), dict) and isinstance(item.get("annotations"), list)


def _are_entities(cell: Any) -> bool:  # Any: JSON
    return isinstance(cell, list) and all(isinstance(item, dict) for item in cell) and bool(cell)


def _unwrap(cell: Any) -> Any:  # Any: JSON
    """Return the choices of a cell of JSON-MIN, and any other cell as it is."""
    return cell[CHOICES] if isinstance(cell, dict) and [*cell] == [CHOICES] else cell


class _Task:
    """A task of Label Studio.

    Attributes:
        answers: by control; entities are objects of start, end and label.
    """

    def __init__(self, path: Path, number: int, item: Object) -> None:
        self.number, self._path = number, path
        if not _is_task(item):
            raise self._refuse(f"found the keys {', '.join(item) or 'none'}")
        self._data: Object = item["data"]
        self.answers: Object = {}
        self._annotation = self._choose(item["annotations"])
        results = self._annotation.get("result", []) if self._annotation else []
        if not isinstance(results, list):
            raise self._refuse(f"found {results!r:.80} in 'result'")
        for result in results:
            self._add(result)

    def list_columns(self, empty: Object) -> Object:
        """Return the columns; `empty` has an empty list for each control with lists."""
        if self._annotation is None:
            return {ANSWER: IGNORE} | self._data
        return {ANSWER: ACCEPT} | self._data | empty | self.answers

    def _choose(self, annotations: list[Any]) -> Object | None:  # Any: JSON
        if odd := [item for item in annotations if not isinstance(item, dict)]:
            raise self._refuse(f"found the annotation {odd[0]!r:.80}")
        made = [item for item in annotations if not item.get("was_cancelled")]
        return next((item for item in made if item.get("ground_truth")), next(iter(made), None))

    def _add(self, result: Any) -> None:  # Any: JSON
        found: Object = result if isinstance(result, dict) else {}
        name, value, sort = (found.get(key) for key in ("from_name", "value", "type"))
        if sort == "relation":
            return
        if not isinstance(name, str) or not isinstance(value, dict):
            raise self._refuse(f"found the result {result!r:.80}")
        if SPANS in value:
            entity = {"start": value.get("start"), "end": value.get("end"), "label": value[SPANS]}
            entities = self.answers.setdefault(name, [])
            if not isinstance(entities, list):
                raise self._refuse(f"found entities and other answers in '{name}'")
            entities.append(entity)
        else:
            other = value.get(sort) if isinstance(sort, str) else None
            answer, known = value.get(CHOICES, other), self.answers.get(name)
            if known is None:
                self.answers[name] = answer
            elif isinstance(known, list) and isinstance(answer, list):
                known.extend(answer)
            else:
                raise self._refuse(f"found two answers in '{name}'")

    def _refuse(self, found: str) -> DataError:
        return DataError(
            f"{self._path}: task {self.number}: {found}, expected a task of Label Studio: data, "
            "and annotations with results of from_name, type and value. Export the file again."
        )
