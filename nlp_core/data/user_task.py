"""The user's files as a task: their splits, and the labels that can be predicted."""

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nlp_core.config.user_data import DataConfig
from nlp_core.data.batching import Ragged
from nlp_core.data.holdout import draw_folds, draw_held_out
from nlp_core.data.question_file import (
    Targets,
    build_question_split,
    read_question_splits,
    read_questions,
)
from nlp_core.data.readers.user import read_examples
from nlp_core.data.scope import OUT_OF_SCOPE, admit_unseen, part_scope
from nlp_core.data.split_column import LabelColumn
from nlp_core.data.tagging_scheme import OUTSIDE, list_tags
from nlp_core.data.task import Split, Task
from nlp_core.data.tokenization import LOCATORS, TOKENIZERS
from nlp_core.data.user_file import read_user_file
from nlp_core.data.written_text import choose_words
from nlp_core.errors import ConfigError, DataError, UsageError
from nlp_core.kinds import LABEL, OUTPUT, TAGS

log = logging.getLogger(__name__)


FEW_TAGS = 2
MANY_LABELS = 20
WRONG_AND_RIGHT = (
    ("0", "1"),
    ("0.0", "1.0"),
    ("-1", "1"),
    ("-1.0", "1.0"),
    ("false", "true"),
    ("f", "t"),
    ("no", "yes"),
    ("n", "y"),
    ("negative", "positive"),
    ("neg", "pos"),
    ("incorrect", "correct"),
    ("wrong", "right"),
    ("irrelevant", "relevant"),
)
"""Possible labels of a wrong and of a right candidate."""
RIGHT = {right for _, right in WRONG_AND_RIGHT}


class Cut(NamedTuple):
    """How rows of a user's file are held out.

    Attributes:
        fold: number of the part that is left out and measured, from 0 of `folds`; None: none is.
    """

    seed: int
    fold: int | None = None
    folds: int = 1


@dataclass(frozen=True)
class UserTask(Task):
    """A task whose splits, "train", "dev" and perhaps "test", are the user's files."""

    splits: Mapping[str, Split]

    def read_split(self, name: str) -> Split:
        return self.splits[name]


def check_tokenizer(data: DataConfig, where: str) -> None:
    """Raise ConfigError if no tokenizer has the name in `data`, or none that finds offsets."""
    try:
        (LOCATORS if data.kind.has_passages or data.has_spans else TOKENIZERS).get(data.tokens)
    except ConfigError as err:
        raise ConfigError(f"{where}: data.tokens: {err}") from err


def read_user_task(
    files: Mapping[str, Path],
    data: DataConfig,
    pieces: list[str],
    *,
    name: str,
    cut: Cut,
) -> UserTask:
    """Read the user's files.

    Args:
        files: "train", and perhaps "dev" and "test".
        pieces: see `read_user_file`.
        cut: how "dev" is held out of train if it is not given; a fold becomes "test".

    Raises:
        UsageError: there are folds of questions on contexts.
        DataError: a file is missing or malformed, or has too few rows for the folds.
    """
    splits: Mapping[str, Split]
    if data.kind.has_passages:
        if cut.fold is not None:
            raise UsageError("--folds: found questions on contexts, expected another kind.")
        splits, targets = read_question_splits(files, data, cut.seed)
    else:
        splits = {split: read_user_file(path, data, split, pieces) for split, path in files.items()}
        if cut.fold is not None:
            splits = splits | _cut_fold(splits["train"], files["train"], cut)
        splits = _part_scopes(splits, data)
        if "dev" not in splits:
            splits = splits | _hold_out(splits["train"], files["train"], cut.seed)
        if data.kind.is_number:
            _check_numbers(data, splits["train"], files["train"])
        targets = _list_labels(data, splits["train"], files["train"])
        for split, path in files.items():
            if split != "train":
                splits[split] = admit_unseen(splits[split], path, targets, data.out_of_scope)
    for split, examples in splits.items():
        log.info("train split name=%s rows=%d", split, len(examples))
    return build_user_task(data, targets, name, splits)


def build_user_task(
    data: DataConfig, targets: dict[str, list[str]], name: str, splits: Mapping[str, Split]
) -> UserTask:
    """Return the task of some splits; `targets` has by target all labels, none for values."""
    return UserTask(
        name=name,
        kind=data.kind,
        targets=targets,
        metrics=data.metrics_or_usual,
        select_split="dev",
        report_split="test" if "test" in splits else "dev",
        scheme=data.target_scheme,
        footnotes=[],
        digest="",
        folder=Path(),
        out_of_scope=data.out_of_scope,
        further_report_splits=tuple(name for name in splits if name.endswith(OUT_OF_SCOPE)),
        splits=splits,
    )


def _part_scopes(splits: Mapping[str, Split], data: DataConfig) -> dict[str, Split]:
    """Return the splits without their rows out of scope, which become splits of their own.

    Those of train serve as those of dev if dev has none: no row out of scope is trained on.
    """
    found: dict[str, Split] = {}
    for split in splits.values():
        found |= part_scope(split, data.out_of_scope)
    outside = found.pop(f"train{OUT_OF_SCOPE}", None)
    if outside is not None and f"dev{OUT_OF_SCOPE}" not in found:
        found[f"dev{OUT_OF_SCOPE}"] = replace(outside, name=f"dev{OUT_OF_SCOPE}")
    return found


def read_file_task(
    path: Path, data: DataConfig, targets: Targets, pieces: Collection[str], owner: str
) -> UserTask:
    """Return a file with labels as the split "test" of a task; see `read_user_split`."""
    whole = read_user_split(path, data, targets, pieces, owner)
    return build_user_task(data, targets, path.stem, part_scope(whole, data.out_of_scope))


def read_user_split(
    path: Path, data: DataConfig, targets: Targets, pieces: Collection[str], owner: str
) -> Split:
    """Read a file with labels as "test".

    Args:
        targets: by target what a model learnt to predict.
        owner: what has these targets, for messages.
    """
    if not data.kind.has_passages:
        split = read_user_file(path, data, "test", pieces)
        return admit_unseen(split, path, targets, data.out_of_scope, owner=owner)
    return build_question_split("test", read_questions(path, data, targets=targets), data)


def list_words(paths: Iterable[Path], data: DataConfig) -> set[str]:
    """Return the distinct tokens of the texts of files."""
    words: set[str] = set()
    for path in paths:
        if data.kind.has_passages:
            tokenize = TOKENIZERS.get(data.tokens)
            for question in read_questions(path, data):
                words.update(tokenize(question.text), tokenize(question.passage.text))
        else:
            for example in read_examples(path, data, labelled=False):
                words.update(*example.texts)
    return words


def check_form(path: Path, data: DataConfig) -> None:
    """Raise DataError if a file is missing, or if its first example is malformed."""
    if data.kind.has_passages:
        read_questions(path, data)
    else:
        next(read_examples(path, data), None)


def _check_numbers(data: DataConfig, train: Split, path: Path) -> None:
    numbers = np.unique(np.asarray(train.targets[LABEL]))
    if len(numbers) == 1:
        raise DataError(
            f"{path}: found only the number {numbers[0]:g} in the column '{data.label}', expected "
            "different numbers; is it the column to predict? See data of the model file."
        )


def _list_labels(data: DataConfig, train: Split, path: Path) -> dict[str, list[str]]:
    """Return by target all labels of a training file, with every tag that its entities can have.

    Raises:
        DataError: there is nothing to learn: only one label, or candidates with labels
            that do not say which is right.
    """
    targets = {}
    for name, labels in train.targets.items():
        if name == OUTPUT:
            assert isinstance(labels, LabelColumn), path
            targets[name] = choose_words(labels.words.count(), data.max_words)
            continue
        found = targets[name] = sorted(labels.lines) if isinstance(labels, LabelColumn) else []
        is_tag = name == TAGS and data.kind.has_tags
        column = data.tag_column if is_tag else data.label
        where = f"{path}: found {{}} in the column '{column}'"
        hint = "is it the column of the label? See data of the model file"
        if data.kind.is_searched and len(found) == 1:  # passages without hard negatives
            wrong = [pair[0] for pair in WRONG_AND_RIGHT if pair[1] == found[0].lower()]
            found = [*wrong[:1], *found]
        if len(found) < 2 and isinstance(labels, LabelColumn):
            one = f"only the label '{found[0]}'" if found else "no labels"
            raise DataError(f"{where.format(one)}, expected two labels at least; {hint}.")
        if data.kind.is_grouped:
            # heads and metrics take the last label for that of right candidates
            targets[name] = sorted(found, key=lambda label: label.lower() in RIGHT)
            if tuple(label.lower() for label in targets[name]) not in WRONG_AND_RIGHT:
                many = f"the labels {', '.join(found[:MANY_LABELS])}"
                raise DataError(
                    f"{where.format(many)}, expected 1 at a right candidate and 0 at a wrong one; "
                    "write these, or name another column in data.label of the model file."
                )
        if is_tag and len(found) <= FEW_TAGS:
            log.warning("%s; %s", where.format(f"no other tags than {' and '.join(found)}"), hint)
        elif not is_tag and len(found) > max(MANY_LABELS, len(train) // 2):
            log.warning("%s; %s", where.format(f"{len(found)} labels in {len(train)} rows"), hint)
        if name == TAGS and data.target_scheme is not None:
            types = sorted({tag[2:] for tag in found if tag != OUTSIDE})
            targets[name] = list_tags(types, data.target_scheme)
    return targets


def _number_labels(split: Split) -> NDArray[np.int64] | None:
    """Return the number of each row's label; None if rows have no single label."""
    labels = split.targets.get(LABEL)
    if split.group is not None or not isinstance(labels, LabelColumn):
        return None
    ids = labels.encode(sorted(labels.lines))
    assert not isinstance(ids, Ragged), split.name
    return ids[np.arange(len(split))]


def _cut_fold(train: Split, path: Path, cut: Cut) -> dict[str, Split]:
    """Cut a fold out of train as test, whole questions when there are questions."""
    units = _count_units(train)
    if units < 2 * cut.folds:
        raise DataError(
            f"{path}: found {units} {'rows' if train.group is None else 'questions'}, expected "
            f"{2 * cut.folds} at least for {cut.folds} folds. Give more, or fewer --folds."
        )
    numbers = draw_folds(units, cut.folds, cut.seed, _number_labels(train))
    return _move_out(train, numbers == cut.fold, "test")


def _hold_out(train: Split, path: Path, seed: int) -> dict[str, Split]:
    """Cut a part of train out as dev, with its share of each label; whole questions, if any."""
    units = _count_units(train)
    if units < 2:
        raise DataError(
            f"{path}: found one {'row' if train.group is None else 'question'}, expected two "
            "at least, one of which is held out to choose the epoch. Give more rows, or --dev."
        )
    is_dev = draw_held_out(units, seed, _number_labels(train))
    parts = _move_out(train, is_dev, "dev")
    log.info("train no --dev, so %d of %d rows are held out", len(parts["dev"]), len(train))
    return parts


def _count_units(train: Split) -> int:
    """Count what is held out as one: rows, or questions."""
    return len(train) if train.group is None else int(train.group.max()) + 1


def _move_out(train: Split, is_out: NDArray[np.bool_], name: str) -> dict[str, Split]:
    """Move some rows or questions, by `is_out` [units], from train to a split of their own."""
    is_out = is_out if train.group is None else is_out[train.group]
    return {
        "train": train.subset("train", np.flatnonzero(~is_out)),
        name: train.subset(name, np.flatnonzero(is_out)),
    }
