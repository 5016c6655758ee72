"""Read WikiQA's tokenised .txt files: question, sentence and label, separated by tabs."""

from pathlib import Path
from typing import Literal

from nlp_core.config.reader import READERS, ReadTask, SourceReader
from nlp_core.data.formats.tsv import split_columns
from nlp_core.data.readers.example import Example
from nlp_core.data.readers.lines import read_lines
from nlp_core.kinds import Kind

# Question, candidate sentence, label.
NUM_COLUMNS = 3


def read_wikiqa(path: Path) -> list[Example]:
    """Read questions and candidates; consecutive equal questions are one group."""
    examples: list[Example] = []
    group = -1
    for line in read_lines(path):
        question, candidate, label = split_columns(line, path, NUM_COLUMNS)
        if not examples or question != examples[-1].text_a:
            group += 1
        examples.append(Example(line.number, question, candidate, label, group))
    return examples


@READERS.register("wikiqa")
class WikiqaReader(SourceReader):
    """Question, sentence and label, tab-separated; equal questions in a row are one group."""

    name: Literal["wikiqa"]

    @classmethod
    def serves(cls, kind: Kind) -> bool:
        return kind.is_grouped

    def read(self, task: ReadTask, name: str, path: Path) -> list[Example]:
        return read_wikiqa(path)
