"""Parse JSON of users; values that Python cannot represent are errors."""

import json
from typing import Any


def parse_json(text: str) -> Any:  # Any: JSON holds anything
    """Return the value of a JSON text.

    Raises:
        ValueError: it is no JSON, or has a lone surrogate, a number of thousands of digits, or too
            deep nesting. The message says which, and where.
    """
    try:
        value = json.loads(text)
        if "\\u" in text:
            # json.loads accepts lone surrogates
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as err:
        place = f"line {err.lineno}, column {err.colno}" if "\n" in text else f"column {err.colno}"
        raise ValueError(f"{err.msg} at {place}") from err
    except UnicodeEncodeError as err:
        half = err.object[err.start : err.end].encode("ascii", "backslashreplace").decode()
        raise ValueError(f"half a character, {half}, which is no Unicode text") from err
    except RecursionError as err:
        raise ValueError("lists or objects in one another too deep to be read") from err
    return value
