"""Read a text file line by line, with line numbers for error messages; parse numbers and JSON."""

import codecs
import json
import math
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from nlp_core.data.signature import NUM_BYTES, describe_content, name_content
from nlp_core.errors import DataError

ADVICE = "Correct the line or fetch the file again."
ONE_A_LINE = "expected one object per line"
SPLIT_ADVICE = (
    "Correct the line; `jq -c '.[]'` splits an array, and --set data.format=... names another "
    "format."
)
STANDARD_INPUT = "-"
"""What other programs read standard input for."""
MARKS = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "bars"}
SHOWN_LINE = 40
"""Most characters of a line in an error message."""
DECIMAL_COMMA = re.compile(r"^(\s*[+-]?(?:0|\d+(?=,(?!\d{3}\s*$)))),(\d+\s*)$")
"""Of a number such as 3,5; 1,234 may be a thousand and more."""
QUOTED = re.compile(r'"[^"]*"')
write_point = partial(DECIMAL_COMMA.sub, r"\1.\2")
"""Write a number with a decimal comma with a point, and other text as it is."""


class Line(NamedTuple):
    """A line of a file, numbered from 1; its end is LF, CR LF or, at the end of a file, empty."""

    number: int
    text: str
    end: str


def read_lines(path: Path, *, encoding: Literal["utf-8", "latin-1"] = "utf-8") -> Iterator[Line]:
    """Yield the lines of a text file; only LF (or CR LF) ends a line, a leading BOM is dropped.

    Raises:
        DataError: the file is missing, empty or no text, or a line is not UTF-8 or has a NUL.
    """
    try:
        with path.open("rb") as file:
            number = 0
            for number, raw in enumerate(file, start=1):
                if number == 1 and (name := name_content(raw[:NUM_BYTES])):
                    raise DataError(f"{path}: {describe_content(name)}")
                text = raw.decode(encoding) if encoding != "utf-8" else _decode(raw, path, number)
                bare = text.removesuffix("\n").removesuffix("\r")
                yield Line(number, bare, text[len(bare) :])
    except FileNotFoundError as err:
        raise DataError(
            f"{path}: no such file; run `python -m stages.preprocess {path.parent.name}`."
        ) from err
    if number == 0:
        raise DataError(f"{path}: the file is empty; expected at least one line. Fetch it again.")


class RepeatedKeyError(ValueError):
    """An object of JSON has a key twice, of which most readers silently keep the last value."""


def read_objects(
    path: Path, *, unique: bool = False
) -> Iterator[tuple[int, dict[str, Any]]]:  # Any: JSON holds anything
    """Yield line number and object of each line of JSON Lines; blank lines are skipped.

    Args:
        unique: whether a repeated key is an error, not only the last one that counts.

    Raises:
        DataError: a line is not a JSON object; the message names the line.
    """
    for line in read_lines(path):
        if not line.text.strip():
            continue
        try:
            value = parse_json(line.text, unique=unique)
        except RepeatedKeyError as err:
            raise refuse(path, line.number, f"{err}, expected it once") from err
        except ValueError as err:
            check_ends(line, path)
            start = line.text[:SHOWN_LINE] + " ..." * (len(line.text) > SHOWN_LINE)
            found = f"not valid JSON ({err}) in {start!r}, {ONE_A_LINE}"
            raise refuse(path, line.number, found, SPLIT_ADVICE) from err
        if not isinstance(value, dict):
            found = f"found a JSON {type(value).__name__}"
            raise refuse(path, line.number, f"{found}, {ONE_A_LINE}", SPLIT_ADVICE)
        yield line.number, value


def require_file(path: Path) -> None:
    """Raise DataError if there is no such file, or something else of that name."""
    if path.is_dir():
        raise DataError(f"{path}: found a folder, expected a file; check its name.")
    if path.is_file():
        return
    is_pipe = path.is_fifo() or str(path) == STANDARD_INPUT
    if is_pipe or path.exists():
        raise DataError(
            f"{path}: found a {'pipe' if is_pipe else 'device'}, expected a file, since it is read "
            "twice; save what it holds as a file first, and name that."
        )
    raise DataError(f"{path}: no such file; check its name.")


def check_ends(line: Line, path: Path) -> None:
    """Raise DataError if all lines of a file seem to be one, since CR without LF ends them."""
    if line.number == 1 and "\n" not in line.end and "\r" in QUOTED.sub("", line.text):
        raise DataError(
            f"{path}: found CR at the ends of lines, as old programs write it, expected LF or CR "
            "LF; convert the file, for example with `tr '\\r' '\\n' < FILE > NEW`."
        )


def describe_uncut(text: str, separator: str) -> str:
    """Say how a line looks that a separator does not cut, which may be of another format."""
    if text.lstrip()[:1] in ("{", "["):
        return f"begins with {text.lstrip()[0]} as JSON does"
    found = next((name for mark, name in MARKS.items() if mark in text), None)
    no_mark = f"no {MARKS.get(separator, repr(separator))}"
    return f"has {found} and {no_mark}" if found else f"has {no_mark}"


class LineError(DataError):
    """A line is malformed; its advice is for who can change how the file is read.

    Attributes:
        found: where, what was found and what was expected, without the advice.
    """

    def __init__(self, found: str, advice: str) -> None:
        super().__init__(f"{found}. {advice}")
        self.found = found


def refuse(path: Path, number: int, message: str, advice: str = ADVICE) -> LineError:
    return LineError(f"{path}: line {number}: {message}", advice)


def _decode(raw: bytes, path: Path, number: int) -> str:
    if number == 1:
        raw = raw.removeprefix(codecs.BOM_UTF8)
        if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise DataError(f"{path}: found UTF-16 text, expected UTF-8; save it as UTF-8.")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as err:
        found = f"not UTF-8 text ({err.reason} at byte {err.start})"
        raise refuse(path, number, f"{found}; save a file of another encoding as UTF-8") from err
    if "\0" in text:
        raise refuse(path, number, f"a NUL character at position {text.index(chr(0)) + 1}")
    return text


def parse_number(text: str) -> float:
    """Return a finite number; NaN for anything else, also for Python's 1_000."""
    try:
        value = math.nan if "_" in text else float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def write_points(rows: list[list[str]]) -> list[list[str]]:
    """Return rows of equal size with points in the columns that are numbers with decimal commas.

    The first row may be a header.
    """
    columns: list[list[str]] = []
    for column in zip(*rows, strict=True):
        points = [write_point(cell) for cell in column]
        given = [cell for cell in points[1:] if cell.strip()]
        is_number = not any(math.isnan(parse_number(cell)) for cell in given)
        columns.append(points if is_number else [*column])
    return [list(row) for row in zip(*columns, strict=True)]


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:  # Any: JSON
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            values = f"{found[key]!r:.60} and {value!r:.60}"
            raise RepeatedKeyError(f"found the key '{key}' twice in an object, with {values}")
        found[key] = value
    return found


_UNIQUE = json.JSONDecoder(object_pairs_hook=_refuse_repeated)


def parse_json(text: str, *, unique: bool = False) -> Any:  # Any: JSON holds anything
    """Return the value of a JSON text.

    Args:
        unique: whether a repeated key is an error, not only the last one that counts.

    Raises:
        RepeatedKeyError: a key is repeated, and must not be.
        ValueError: it is not JSON, or has a lone surrogate, a number with thousands of digits, or
            too much nesting. The message says which, and where.
    """
    try:
        value = _UNIQUE.decode(text) if unique else json.loads(text)
        if "\\u" in text:
            # json.loads accepts lone surrogates
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as err:
        place = f"line {err.lineno}, column {err.colno}" if "\n" in text else f"column {err.colno}"
        raise ValueError(f"{err.msg} at {place}") from err
    except UnicodeEncodeError as err:
        half = err.object[err.start : err.end].encode("ascii", "backslashreplace").decode()
        raise ValueError(f"half a character, {half}, which is not Unicode text") from err
    except RecursionError as err:
        raise ValueError("lists or objects are nested too deeply") from err
    return value
