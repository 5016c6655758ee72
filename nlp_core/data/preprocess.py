"""Turn the checked members of a source into typed parquet files and a manifest.

The manifest is written last and the folder renamed into place: its presence means complete.
"""

import json
import logging
import shutil
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from nlp_core.config.column import NUMBERS
from nlp_core.config.dataset import HELD_OUT, DatasetConfig, HeldOutConfig, TaskConfig
from nlp_core.data.columns import list_written_words, write_rows
from nlp_core.data.corpus import write_corpus
from nlp_core.data.holdout import Partition, cut_by_key, cut_by_phrase_root, cut_by_row
from nlp_core.data.readers.example import Example, Question, Rows, Sentence
from nlp_core.data.readers.lines import refuse
from nlp_core.data.source import read_members
from nlp_core.data.split_column import list_openers
from nlp_core.data.tagging_scheme import list_tags
from nlp_core.data.token_pool import prepare_tokenizer
from nlp_core.data.word_vectors import read_glove, read_piece_vectors, write_table
from nlp_core.errors import DataError
from nlp_core.files import MANIFEST, digest_file, replacing_folder, write_json
from nlp_core.kinds import PAIR_TEXTS, SPAN_LABELS

log = logging.getLogger(__name__)


class _Split(NamedTuple):
    """The rows of a split and their numbers in the official file."""

    ids: list[int]
    rows: Rows


def preprocess_source(
    name: str, dataset: DatasetConfig, data_dir: Path = Path("data"), *, processes: int = 1
) -> None:
    """Write data/processed/<name>/ from data/raw/<name>/.

    Args:
        processes: that tokenize; the bytes are the same for any number.

    Raises:
        DataError: a member is missing or was changed, a line is malformed, or a split has another
            number of rows than the official one. Then data/processed/<name>/ is left as it was.
    """
    raw_dir = data_dir / "raw" / name
    source = _check_members(raw_dir)
    with replacing_folder(data_dir / "processed" / name) as folder:
        if dataset.task:
            manifest = _write_task(dataset.task, raw_dir, folder, processes)
        elif dataset.vectors:
            manifest = _write_vectors(dataset, raw_dir, folder)
        elif dataset.encoder:
            manifest = _write_encoder(dataset.encoder, raw_dir, folder)
        elif dataset.corpus:
            manifest = write_corpus(dataset.corpus, raw_dir, folder)
        else:
            raise DataError(
                f"sources/{name}.yaml: has neither task, vectors, encoder nor corpus, so there is "
                "nothing to preprocess. Remove it from tasks in params.yaml."
            )
        manifest |= {"task": name, "kind": dataset.kind, "source": source}
        write_json(folder / MANIFEST, manifest)
    log.info("preprocess done task=%s kind=%s", name, dataset.kind)


def _check_members(raw_dir: Path) -> dict[str, dict[str, str | None]]:
    """Return digest and label of each member, after checking that none was changed."""
    source: dict[str, dict[str, str | None]] = {}
    for member, (digest, label) in sorted(read_members(raw_dir).items()):
        path = raw_dir / member
        found = digest_file(path) if path.is_file() else "no such file"
        if found != digest:
            raise DataError(
                f"{path}: found {found}, expected sha256 {digest} as {raw_dir / MANIFEST} says; "
                f"run `python -m stages.preprocess {raw_dir.name}`."
            )
        source[member] = {"sha256": digest, "label": label}
    return source


def _write_task(task: TaskConfig, raw_dir: Path, folder: Path, processes: int) -> dict[str, object]:
    splits = {split: _read_split(task, split, raw_dir) for split in sorted(task.splits)}
    _check_widths(task, splits, raw_dir)
    if task.held_out:
        splits |= _cut(splits["train"], task.held_out)
    if "train" in splits:
        splits["train"] = _fit_for_training(splits["train"], task)
    entries: dict[str, object] = {}
    for split, (ids, rows) in splits.items():
        path = folder / f"{split}.parquet"
        tokenize = prepare_tokenizer(task.tokens, rows, processes)
        write_rows(path, task.kind, ids, rows, tokenize)
        entries[split] = {
            "rows": len(rows),
            "sha256": digest_file(path),
            "labels": _count_labels(rows, task),
        }
        log.info("preprocess split split=%s rows=%d", split, len(rows))
    manifest = _name_targets(task, splits) | {
        "splits": entries,
        "select_split": task.select_split,
        "report_split": task.report_split,
        "metrics": task.metrics,
        "scheme": task.scheme,
    }
    # A key that a task lacks would change the digest of what its cells were trained on.
    if task.further_report_splits:
        manifest["further_report_splits"] = task.further_report_splits
    if task.searched is not None:
        manifest["searched"] = task.searched
    return manifest


def _name_targets(task: TaskConfig, splits: dict[str, _Split]) -> dict[str, object]:
    """Return all labels and, for a task with both, all tags; or the words that can be written."""
    if task.max_words is not None:
        tokenize = prepare_tokenizer(task.tokens, [], 1)
        return {"labels": list_written_words(splits["train"].rows, tokenize, task.max_words)}
    if task.scheme is None:
        return {"labels": task.labels}
    if task.slots is None:
        return {"labels": list_tags(task.labels, task.scheme)}
    return {"labels": task.labels, "tags": list_tags(task.slots, task.scheme)}


def _read_split(task: TaskConfig, name: str, raw_dir: Path) -> _Split:
    split, rows = task.splits[name], list[Any]()
    for file in split.files:
        found = task.reader.read(task, name, raw_dir / file)
        _check_rows(task, name, found, raw_dir / file)
        rows += found
    if (number := task.reader.count(rows)) != split.rows:
        raise DataError(
            f"{raw_dir / split.file}: found {number} examples for {name}, expected the official "
            f"{split.rows}. The file is cut short or not the official one: run "
            f"`python -m stages.preprocess {raw_dir.name}`."
        )
    return _Split(list(range(len(rows))), rows)


def _check_rows(task: TaskConfig, name: str, rows: Rows, path: Path) -> None:
    if task.splits[name].labelled and task.kind.has_label:
        for row in rows:
            if isinstance(row, Example):
                _check_label(row, task, path)
    tokenize = prepare_tokenizer(task.tokens, [], 1)
    for row in rows:
        if isinstance(row, Example) and row.extras:
            _check_extras(row, tokenize(row.text_a), path)


def _fit_for_training(train: _Split, task: TaskConfig) -> _Split:
    """Leave out the rows that nothing can be learnt from, and cut long passages."""
    fitted = zip(train.ids, map(task.reader.fit, train.rows), strict=True)
    kept = [(number, row) for number, row in fitted if row is not None]
    if left_out := len(train.rows) - len(kept):
        log.warning("preprocess left out of train questions=%d", left_out)
    return _Split([number for number, _ in kept], [row for _, row in kept])


def _check_label(row: Example, task: TaskConfig, path: Path) -> None:
    if not task.kind.is_number:
        for found in [row.label] if row.labels is None else row.labels:
            if found not in task.labels:
                allowed = ", ".join(f"'{label}'" for label in task.labels)
                raise refuse(path, row.line, f"found the label '{found}', expected {allowed}")
        return
    assert task.label_range is not None
    low, high = task.label_range
    try:
        is_inside = low <= float(row.label or "") <= high
    except ValueError:
        is_inside = False
    if not is_inside:
        raise refuse(
            path, row.line, f"found the label '{row.label}', expected a number from {low} to {high}"
        )


def _check_extras(row: Example, tokens: list[str], path: Path) -> None:
    for name, values in row.extras.items():
        if not name.startswith(NUMBERS) and len(values) != len(tokens):
            raise refuse(
                path,
                row.line,
                f"found {len(values)} values in the column '{name.partition('.')[2]}', expected "
                f"{len(tokens)}, one for each token of the text",
            )


def _check_widths(task: TaskConfig, splits: dict[str, _Split], raw_dir: Path) -> None:
    """Raise if a row has more or fewer numbers in a column than the first row of train."""
    widths: dict[str, int] = {}
    for split in sorted(splits, key=lambda name: name != "train"):
        for row in splits[split].rows:
            if isinstance(row, Example) and row.extras:
                _check_width(row, widths, raw_dir / task.splits[split].file)


def _check_width(row: Example, widths: dict[str, int], path: Path) -> None:
    for name, values in row.extras.items():
        if name.startswith(NUMBERS) and len(values) != widths.setdefault(name, len(values)):
            found = f"found {len(values)} numbers in the column '{name.removeprefix(NUMBERS)}'"
            expected = f"expected {widths[name]}, as many as in the first row of train"
            raise refuse(path, row.line, f"{found}, {expected}")


def _cut(train: _Split, held_out: HeldOutConfig) -> dict[str, _Split]:
    parts = _partition(train.rows, held_out)
    if not parts.train or not parts.held_out:
        raise DataError(
            f"held_out: found {len(parts.held_out)} of {len(train.rows)} rows to hold out by "
            f"{held_out.by} with share {held_out.share}, expected some but not all of them; choose "
            "another share, or cut by something smaller."
        )
    return {
        "train": _Split(parts.train, [train.rows[row] for row in parts.train]),
        HELD_OUT: _Split(parts.held_out, [train.rows[row] for row in parts.held_out]),
    }


def _partition(all_rows: Rows, held_out: HeldOutConfig) -> Partition:
    share, seed = held_out.share, held_out.seed
    if held_out.by == "row":
        return cut_by_row(len(all_rows), share=share, seed=seed)
    if held_out.by in ("article", "paragraph"):
        passages = [row.passage for row in all_rows if isinstance(row, Question)]
        by_article = held_out.by == "article"
        keys = [str(item.article if by_article else item.number) for item in passages]
        return cut_by_key(keys, share=share, seed=seed)
    rows = [row for row in all_rows if isinstance(row, Example)]
    assert len(rows) == len(all_rows), f"held_out.by {held_out.by} reads texts"
    if held_out.by in PAIR_TEXTS:
        keys = [(row.text_a if held_out.by == "text_a" else row.text_b) or "" for row in rows]
        return cut_by_key(keys, share=share, seed=seed)
    return cut_by_phrase_root([row.text_a.split() for row in rows], share=share, seed=seed)


def _count_labels(rows: Rows, task: TaskConfig) -> dict[str, int]:
    """Count labels and tags; nothing for regression and for rows without labels."""
    counts: Counter[str] = Counter()
    if task.kind.is_number:
        return {}
    for row in rows:
        if isinstance(row, Question):
            counts.update([] if row.answers is None else [SPAN_LABELS[not row.answers]])
            continue
        if isinstance(row, Sentence):
            counts.update([*row.tags, *list_openers(row.tree)])
        elif row.labels is not None:
            counts.update(row.labels)
        if row.label is not None:
            counts[row.label] += 1
    return dict(sorted(counts.items()))


def _write_vectors(dataset: DatasetConfig, raw_dir: Path, folder: Path) -> dict[str, object]:
    tables: dict[str, object] = {}
    for name, config in sorted((dataset.vectors or {}).items()):
        file, pieces = raw_dir / config.file, config.pieces
        found = (
            read_glove(file, dim=config.dim)
            if pieces is None
            else read_piece_vectors(file, pieces.tensor, raw_dir / pieces.words, dim=config.dim)
        )
        tables[name] = write_table(folder, name, found)
        log.info("preprocess table table=%s rows=%d", name, len(found.row_of))
    return {"tables": tables}


def _write_encoder(members: list[str], raw_dir: Path, folder: Path) -> dict[str, object]:
    """Copy the encoder's files, so that all models start from data/processed/."""
    for member in members:
        shutil.copyfile(raw_dir / member, folder / member)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return {"files": {member: digest_file(folder / member) for member in sorted(members)}} | {
        "model_type": str(config.get("model_type"))
    }
