"""Read parallel files: words, tags and label of a sentence on the same line of three files."""

from collections.abc import Collection
from itertools import zip_longest
from pathlib import Path
from typing import ClassVar, Literal

from nlp_core.config.reader import READERS, EntityScheme, ReadTask, SourceReader
from nlp_core.data.readers.example import Sentence
from nlp_core.data.readers.lines import Line, read_lines, refuse
from nlp_core.data.tagging_scheme import TagError, convert_tags, list_tags
from nlp_core.kinds import Kind


def read_parallel(
    path: Path,
    *,
    tags_path: Path,
    label_path: Path,
    source_scheme: str,
    target_scheme: str,
    tags: Collection[str],
    labels: Collection[str],
) -> list[Sentence]:
    """Read the sentences of three files; words and tags are separated by spaces.

    Args:
        path: the words.
        tags_path: a tag per word.
        label_path: a label per sentence.
        source_scheme: tagging scheme of the file of tags.
        target_scheme: tagging scheme of the result.
        tags: the allowed tags in `target_scheme`.
        labels: the allowed labels.

    Raises:
        DataError: a file has fewer lines than another, a line has no words or another number of
            tags, or a tag or label is not allowed.
    """
    paths, known = (path, tags_path, label_path), set(tags)
    sentences: list[Sentence] = []
    for lines in zip_longest(*(read_lines(item) for item in paths)):
        words_line, tags_line, label_line = _require_all(lines, paths)
        words, found = _split(words_line), _split(tags_line)
        number, label = words_line.number, label_line.text.strip(" ")
        if not words:
            raise refuse(path, number, "found no word, expected at least one")
        if len(found) != len(words):
            message = f"found {len(found)} tags, expected {len(words)}, one for each word of {path}"
            raise refuse(tags_path, number, message)
        if label not in labels:
            expected = ", ".join(f"'{name}'" for name in labels)
            raise refuse(label_path, number, f"found the label '{label}', expected {expected}")
        converted = _convert(found, source_scheme, target_scheme, path=tags_path, number=number)
        if strange := [tag for tag in converted if tag not in known]:
            message = f"found the tag '{strange[0]}', expected a type among the task's slots"
            raise refuse(tags_path, number, message)
        sentences.append(Sentence(number, words, converted, label))
    return sentences


def _require_all(lines: tuple[Line | None, ...], paths: tuple[Path, ...]) -> list[Line]:
    found = [line for line in lines if line is not None]
    for line, path in zip(lines, paths, strict=True):
        if line is None:
            more = paths[lines.index(found[0])]
            raise refuse(path, found[0].number, f"found the end of the file, but {more} goes on")
    return found


def _split(line: Line) -> list[str]:
    return [part for part in line.text.split(" ") if part]


def _convert(tags: list[str], source: str, target: str, *, path: Path, number: int) -> list[str]:
    try:
        return convert_tags(tags, source, target)
    except TagError as err:
        raise refuse(path, number, f"tag {err.index + 1}: {err}") from err


@READERS.register("parallel")
class ParallelReader(SourceReader):
    """Three files, line by line: words, their tags, and the label of the sentence."""

    name: Literal["parallel"]
    scheme: EntityScheme
    """Tagging scheme of the file of tags."""
    needs_side_files: ClassVar[bool] = True

    @classmethod
    def serves(cls, kind: Kind) -> bool:
        return kind.has_tags and kind.has_label

    def read(self, task: ReadTask, name: str, path: Path) -> list[Sentence]:
        split = task.splits[name]
        assert task.scheme is not None
        assert split.tags_file is not None
        assert split.label_file is not None
        return read_parallel(
            path,
            tags_path=path.with_name(split.tags_file),
            label_path=path.with_name(split.label_file),
            source_scheme=self.scheme,
            target_scheme=task.scheme,
            tags=list_tags(task.slots or [], task.scheme),
            labels=task.labels,
        )
