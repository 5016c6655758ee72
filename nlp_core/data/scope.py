"""Rows of the user's files with a label that no class has: out of scope, or never seen."""

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from nlp_core.data.split_column import LabelColumn
from nlp_core.data.task import Split
from nlp_core.errors import DataError, suggest
from nlp_core.kinds import LABEL, LABELS, TAGS

log = logging.getLogger(__name__)

OUT_OF_SCOPE = "_out_of_scope"
"""The end of the name of a split that has the rows out of scope of another one."""
SHOWN = 5


def part_scope(split: Split, label: str | None) -> dict[str, Split]:
    """Return by name the rows in scope and, if there are any, those with the label out of scope.

    Raises:
        DataError: there are none in scope.
    """
    if label is None:
        return {split.name: split}
    answers = split.targets[LABEL]
    assert isinstance(answers, LabelColumn), split.name
    is_outside = np.array([found == label for found in answers])
    if is_outside.all():
        raise DataError(f"{answers.where}: found only rows out of scope, expected rows of classes.")
    lines = {name: line for name, line in answers.lines.items() if name != label}
    targets = {LABEL: replace(answers, lines=lines, is_measured=True)}
    found = replace(split, targets=targets)
    outside = split.name + OUT_OF_SCOPE
    parts = {split.name: np.flatnonzero(~is_outside), outside: np.flatnonzero(is_outside)}
    return {name: found.subset(name, rows) for name, rows in parts.items() if len(rows)}


def admit_unseen(
    split: Split,
    path: Path,
    targets: Mapping[str, Collection[str]],
    out_of_scope: str | None,
    *,
    owner: str = "the training file",
) -> Split:
    """Return a split in which unknown labels count as wrong, and warn of them.

    Candidates of a ranking and trees keep theirs, an error later.

    Args:
        owner: what has the known labels, for messages.

    Raises:
        DataError: none of the labels is known.
    """
    found = dict(split.targets)
    for name in (LABEL, LABELS, TAGS):
        answers = found.get(name)
        if not isinstance(answers, LabelColumn) or split.group is not None:
            continue
        counts = answers.words.count()
        known = {*targets[name], out_of_scope}
        unseen = sorted(counts.keys() - known, key=lambda label: answers.lines.get(label, 0))
        if unseen and not counts.keys() & known:
            raise DataError(
                f"{answers.where}: line {answers.lines.get(unseen[0], 1)}: found the label "
                f"'{unseen[0]}' and none that {owner} has. "
                f"{suggest(unseen[0], [*targets[name]])} Is it the column of the label? See --set "
                "data.label=..."
            )
        found[name] = replace(answers, is_measured=True)
        if unseen:
            shown = ", ".join(f"'{label}' ({counts[label]})" for label in unseen[:SHOWN])
            shown += f" and {len(unseen) - SHOWN} more" if len(unseen) > SHOWN else ""
            log.warning(
                "%s: line %d: found labels that %s does not have, which count as wrong: %s. %s",
                *(path, answers.lines[unseen[0]], owner, shown),
                suggest(unseen[0], [*targets[name]]),
            )
    return replace(split, targets=found)
