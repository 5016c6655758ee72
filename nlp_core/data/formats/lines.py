"""Read running text: a sentence, a paragraph or a document per line; empty lines between them."""

from pathlib import Path
from typing import Literal

from nlp_core.config.reader import READERS, ReadTask, SourceReader
from nlp_core.data.readers.example import Example
from nlp_core.data.readers.lines import read_lines
from nlp_core.kinds import Kind


@READERS.register("lines")
class LinesReader(SourceReader):
    """Running text: a sentence, a paragraph or a document a line; empty lines are left out."""

    name: Literal["lines"]

    @classmethod
    def serves(cls, kind: Kind) -> bool:
        return kind.predicts_words

    def read(self, task: ReadTask, name: str, path: Path) -> list[Example]:
        lines = read_lines(path)
        return [Example(item.number, item.text, None, None) for item in lines if item.text.strip()]
