"""Read running text: a sentence, a paragraph or a document per line; empty lines between them."""

from pathlib import Path

from nlp_core.data.readers.example import Example
from nlp_core.data.readers.lines import read_lines


def read_passages(path: Path) -> list[Example]:
    """Read the lines of a file that are not blank."""
    return [
        Example(line.number, line.text, None, None)
        for line in read_lines(path)
        if line.text.strip()
    ]
