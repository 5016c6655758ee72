"""Read the raw Microsoft Research Paraphrase Corpus; dev is selected by a list of id pairs."""

from pathlib import Path
from typing import Literal

from nlp_core.config.base import FileName
from nlp_core.config.reader import READERS, ReadTask, SourceReader
from nlp_core.data.formats.tsv import split_columns
from nlp_core.data.readers.example import Example
from nlp_core.data.readers.lines import read_lines
from nlp_core.errors import DataError
from nlp_core.kinds import Kind

# Quality, id of the first, id of the second, first text, second text.
NUM_COLUMNS = 5


def read_mrpc(path: Path, *, split: str, dev_ids_path: Path) -> list[Example]:
    """Read one split of the corpus, in the order of its file.

    Args:
        path: msr_paraphrase_train.txt for train and dev, msr_paraphrase_test.txt for test.
        split: "train" returns the rows not in the list, "dev" those in it, any other name all.
        dev_ids_path: GLUE's list of id pairs.

    Raises:
        DataError: a line is malformed, or a pair of the list is not in the file.
    """
    lines = read_lines(path)
    next(lines)
    rows = [split_columns(line, path, NUM_COLUMNS) for line in lines]
    examples = [Example(n, row[3], row[4], row[0]) for n, row in enumerate(rows, start=2)]
    if split not in ("train", "dev"):
        return examples
    dev_ids = _read_ids(dev_ids_path)
    pairs = [(row[1], row[2]) for row in rows]
    if lost := sorted(dev_ids - set(pairs)):
        raise DataError(
            f"{dev_ids_path}: the pair {lost[0][0]}, {lost[0][1]} is not in {path}; "
            "expected every pair there. Fetch both files again."
        )
    kept = zip(pairs, examples, strict=True)
    return [example for pair, example in kept if (pair in dev_ids) == (split == "dev")]


def _read_ids(path: Path) -> set[tuple[str, str]]:
    rows = [split_columns(line, path, 2) for line in read_lines(path)]
    return {(row[0], row[1]) for row in rows}


@READERS.register("mrpc")
class MrpcReader(SourceReader):
    """The raw Microsoft paraphrase files; dev is a list of ids."""

    name: Literal["mrpc"]
    dev_ids: FileName
    """File with the pairs of ids of dev."""

    @classmethod
    def serves(cls, kind: Kind) -> bool:
        return kind.num_texts == 2 and kind.has_label and kind.has_classes and not kind.is_grouped

    def list_members(self) -> list[str]:
        return [self.dev_ids]

    def read(self, task: ReadTask, name: str, path: Path) -> list[Example]:
        return read_mrpc(path, split=name, dev_ids_path=path.with_name(self.dev_ids))
