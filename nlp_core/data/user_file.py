"""The user's file as a split: its examples as typed parquet in the cache, with a manifest."""

import json
import logging
import shutil
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from nlp_core.config.column import NUMBERS, TOKEN_VECTORS, WHOLE_TEXTS
from nlp_core.config.user_data import DataConfig
from nlp_core.data.cache import keep
from nlp_core.data.columns import Values, build_schema, write_columns
from nlp_core.data.readers.entities import BorderCheck
from nlp_core.data.readers.records import check_file, refuse_row
from nlp_core.data.readers.user import READ_SCHEME, UserExample, read_examples
from nlp_core.data.scheme_detection import suggest_scheme
from nlp_core.data.split_column import LabelColumn, list_openers
from nlp_core.data.tagging_scheme import TagError, convert_tags
from nlp_core.data.task import Split, read_split_file
from nlp_core.data.tokenization import describe_code
from nlp_core.errors import DataError, plural
from nlp_core.files import MANIFEST, digest_file, digest_json, digest_path, write_json
from nlp_core.kinds import GROUP, LABEL, OUTPUT, TAGS, TREE

log = logging.getLogger(__name__)

FORMAT_VERSION = 5
DIGEST = "digest"
EXAMPLES = "examples"
# Fewer than in a source: the texts may be whole documents, and their words are in memory.
ROWS_A_GROUP = 2048
MOST_LABELS = 10_000


def read_user_file(path: Path, data: DataConfig, name: str, pieces: Collection[str] = ()) -> Split:
    """Return the examples of a file as a split; a second reading takes them from the cache.

    Args:
        pieces: columns that a pretrained encoder cuts into pieces of its own; it knows pieces of
            all words, however rare, and unchanged texts are read into memory.

    Raises:
        DataError: the file is missing or empty, or a line is malformed; the line is named.
    """
    check_file(path, data.format)
    key = digest_json(
        {
            "data": data.model_dump(mode="json", exclude={"metrics", "max_words", "out_of_scope"}),
            "file": digest_path(path),
            "tokenizer": describe_code(data.tokens),
            "format": FORMAT_VERSION,
        }
    )
    folder = keep(EXAMPLES, key, lambda temporary: write_user_file(temporary, path, data))
    if not _is_whole(folder):
        log.warning("%s: found damaged examples in the cache; they are written again", folder)
        shutil.rmtree(folder)
        keep(EXAMPLES, key, lambda temporary: write_user_file(temporary, path, data))
    note = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    if note["warning"]:
        log.warning("%s: %s", path, note["warning"])
    keeps_all = pieces or data.kind.writes_text  # rare words are cut into pieces, or copied
    split = read_split_file(
        folder / f"{EXAMPLES}.parquet",
        data.kind,
        data.kind.target_names,
        where=str(path),
        max_words=sys.maxsize if keeps_all else data.max_words,
        has_raw=not {*WHOLE_TEXTS}.isdisjoint(pieces),
    )
    for column, text in split.texts.items():
        if text.dropped is not None:
            said = "%s: kept the %d most frequent words of %s, the rest is unknown (data.max_words)"
            log.warning(said, path, data.max_words, column)
    targets = {
        key: replace(answers, lines=note["lines"][key])
        if isinstance(answers, LabelColumn)
        else answers
        for key, answers in split.targets.items()
    }
    return replace(split, name=name, targets=targets)


def _is_whole(folder: Path) -> bool:
    """Return whether the examples are those that the manifest names, and it can be read."""
    try:
        note = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        own = note.pop(DIGEST)
        digest = note["splits"][EXAMPLES]["sha256"]
        found = digest_file(folder / f"{EXAMPLES}.parquet")
        return (own, digest) == (digest_json(note), found)
    except (OSError, ValueError, LookupError, AttributeError, TypeError):
        return False


def write_user_file(folder: Path, path: Path, data: DataConfig) -> None:
    rows, target = _FileRows(path, data), folder / f"{EXAMPLES}.parquet"
    schema = build_schema(data.kind, data.extras)
    num_rows = write_columns(target, schema, rows, ROWS_A_GROUP)
    if num_rows == 0:
        wanted = "row that data.where keeps" if data.where else "row after the header"
        raise DataError(f"{path}: found no examples; expected at least one {wanted}.")
    split = {"rows": num_rows, "sha256": digest_file(target), "labels": rows.counts}
    manifest = {
        "kind": data.kind.name,
        "source": {"file": {"sha256": digest_path(path), "label": None}},
        "splits": {EXAMPLES: split},
        "scheme": data.target_scheme,
        "lines": rows.lines,
        "warning": rows.borders.describe() if rows.borders else "",
    }
    write_json(folder / MANIFEST, manifest | {DIGEST: digest_json(manifest)})


class _FileRows:
    """The examples of a file as rows of a parquet file, and what needs all rows to be known.

    Attributes:
        borders: how entities fit the tokens; None if they are not spans.
        lines: by target the first line of each label.
        counts: of all labels.
    """

    def __init__(self, path: Path, data: DataConfig) -> None:
        self.borders = BorderCheck() if data.has_spans else None
        self.lines: dict[str, dict[str, int]] = {name: {} for name in data.kind.target_names}
        self.counts: Counter[str] = Counter()
        self._path, self._data = path, data
        self._widths: dict[str, int] = {}
        self._groups: dict[str, int] = {}
        self._last: tuple[str | None, int] = (None, -1)

    def __iter__(self) -> Iterator[Values]:
        kind = self._data.kind
        for number, example in enumerate(read_examples(self._path, self._data)):
            if self.borders is not None:
                self.borders.add(example.borders, example.line())
            self._check_widths(example)
            row: dict[str, object] = {"id": number, **example.extras}
            for name in example.extras:
                if name.startswith(TOKEN_VECTORS):
                    row[name] = [*chain.from_iterable(example.extras[name])]
            row.update(zip(kind.tokens, example.texts, strict=True))
            row.update(zip(kind.texts, example.raw, strict=True))
            for name in kind.target_names:
                row[name] = self._read_target(name, example)
            if example.group is not None:
                row[GROUP] = self._number_question(example.group)
            yield row

    def _number_question(self, group: str) -> int:
        """Number the questions of candidates, by a column or by runs of equal texts."""
        if self._data.group is not None:
            return self._groups.setdefault(group, len(self._groups))
        last, number = self._last
        self._last = (group, number + (group != last))
        return self._last[1]

    def _check_widths(self, example: UserExample) -> None:
        for name, values in example.extras.items():
            if not name.startswith((NUMBERS, TOKEN_VECTORS)):
                continue
            size = len(values) if name.startswith(NUMBERS) else len(values[0])
            width = self._widths.setdefault(name, size)
            if size != width:
                found = f"found {plural(size, 'number')} in '{self._data.extras[name]}'"
                expected = f"expected {width} as in the first row"
                raise refuse_row(self._path, example.line(), f"{found}, {expected}")

    def _read_target(self, name: str, example: UserExample) -> Any:  # Any: a cell of any form
        words = example.targets[name]
        if name == OUTPUT:
            return words
        if self._data.kind.is_number:
            return float(words[0])  # the reader has checked it
        labels = (
            self._convert(example, words) if self._data.kind.has_tags and name == TAGS else words
        )
        counted = list_openers(words) if name == TREE else labels
        self.counts.update(counted)
        lines = self.lines[name]
        for idx, label in enumerate(counted):
            if label not in lines:
                lines[label] = example.line(idx)
                if len(lines) > MOST_LABELS:
                    found = f"found more than {MOST_LABELS} labels in '{self._data.label}'"
                    hint = "expected the same few again and again; is it the label?"
                    raise refuse_row(self._path, lines[label], f"{found}, {hint}")
        return labels[0] if name == LABEL else labels

    def _convert(self, example: UserExample, tags: list[str]) -> list[str]:
        source = READ_SCHEME if self._data.has_spans else self._data.scheme
        target = self._data.target_scheme
        assert source is not None
        if target is None:
            return tags
        try:
            return convert_tags(tags, source, target)
        except TagError as err:
            line = example.line(err.index)
            hint = suggest_scheme(read_examples(self._path, self._data), source)
            raise refuse_row(self._path, line, f"{err}{hint}") from err
