"""Read sentences with trees of intents and slots: tab-separated columns without quoting."""

from pathlib import Path
from typing import Literal

from nlp_core.config.reader import READERS, ColumnName, ReadTask, SourceReader
from nlp_core.data.formats.rows import read_header, split_columns
from nlp_core.data.readers.example import Sentence
from nlp_core.data.readers.lines import read_lines, refuse
from nlp_core.data.split_column import list_openers
from nlp_core.kinds import Kind
from reglue_runtime.tree import TreeError, list_constituents, list_leaves


@READERS.register("trees")
class TreesReader(SourceReader):
    """A tree a line, such as TOP's; the tokens are its leaves."""

    name: Literal["trees"]
    tree: ColumnName
    """Column of the tree: `[IN:GET_TIME what time in [SL:PLACE Rome ] ]`."""

    @classmethod
    def serves(cls, kind: Kind) -> bool:
        return kind.has_tree

    def read(self, task: ReadTask, name: str, path: Path) -> list[Sentence]:
        lines = read_lines(path)
        names = read_header(lines, task.splits[name].columns, [self.tree], path)
        place, labels = names.index(self.tree), {*task.labels}
        sentences = []
        for line in lines:
            symbols = split_columns(line, path, len(names))[place].split()
            try:
                list_constituents(symbols)
            except TreeError as err:
                raise refuse(path, line.number, str(err)) from err
            if strange := [label for label in list_openers(symbols) if label not in labels]:
                found = f"found '{strange[0]}', expected one of the task's labels"
                raise refuse(path, line.number, found)
            sentences.append(Sentence(line.number, list_leaves(symbols), [], tree=symbols))
        return sentences
