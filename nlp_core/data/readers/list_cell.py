"""Read a list that a cell of a table holds as text: JSON, or as pandas and numpy write it."""

import ast
import re
from contextlib import suppress
from typing import Any

from nlp_core.data.readers.lines import parse_json

GAP = re.compile(r"""(['"])\s+(['"])""")
"""What stands between the texts of a numpy array."""


def parse_list(cell: Any) -> Any:  # Any: a cell of JSON
    """Return the list of texts, whole numbers, lists or objects in a text; else the cell itself."""
    if not isinstance(cell, str) or not (cell.startswith("[") and cell.endswith("]")):
        return cell
    for read in (parse_json, _parse_literal):
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            found = _copy(read(cell))
            if all(isinstance(item, str | int | list | dict) for item in found):
                return found
    return cell


def _parse_literal(text: str) -> Any:  # Any: a literal of Python
    return ast.literal_eval(GAP.sub(r"\1, \2", text))


def _copy(value: Any) -> Any:  # Any: a literal of Python
    """Return a literal with lists in place of tuples."""
    return [*map(_copy, value)] if isinstance(value, list | tuple) else value
