"""Where a ranking is wrong: at which questions the right candidate is not first.

Shape letters: S seeds, N answerable questions.
"""

from collections import Counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nlp_core.report.examples import Runs
from nlp_core.site.breakdown import MOST_EXAMPLES, Breakdown, count_right_seeds, format_mean

SIZES = ((1, 5), (6, 10), (11, 20), (21, 10**9))
"""Smallest and largest number of candidates of each slice."""


class RankedQuestion(NamedTuple):
    """A question with a right candidate.

    Attributes:
        number: of the question.
        size: its candidates.
        right: row numbers of the right ones.
        ranks: of the first right candidate, by seed; equal scores rank it last.
        first: row number of the candidate that most seeds rank first.
    """

    number: int
    size: int
    right: list[int]
    ranks: list[int]
    first: int


def break_down_ranking(runs: Runs) -> list[Breakdown]:
    """Return the tables of a task that ranks candidates."""
    questions = list_questions(runs)
    ranks_SN = np.asarray([question.ranks for question in questions]).T
    return [
        _slice_by_size(questions, ranks_SN),
        count_right_seeds(ranks_SN == 1, "questions"),
        _list_worst(questions),
    ]


def list_questions(runs: Runs) -> list[RankedQuestion]:
    """Return the questions that have a right candidate, in the order of their numbers."""
    first = runs.predictions[0]
    assert first.group is not None, runs.task.kind
    relevant = np.asarray(first.target, dtype=np.str_) == first.labels[-1]
    order = np.argsort(first.group, kind="stable")
    starts = np.flatnonzero(np.diff(first.group[order])) + 1
    scores = np.asarray([run.score[:, -1] for run in runs.predictions if run.score is not None])
    found = []
    for rows in np.split(order, starts):
        right = relevant[rows]
        if not right.any():
            continue
        own = scores[:, rows]
        best = own[:, right].max(1, keepdims=True)
        ranks = 1 + (own[:, ~right] >= best).sum(1)
        tops = Counter(int(rows[idx]) for idx in own.argmax(1))
        found.append(
            RankedQuestion(
                int(first.group[rows[0]]),
                len(rows),
                [runs.ids[row] for row in rows[right]],
                ranks.tolist(),
                runs.ids[tops.most_common(1)[0][0]],
            )
        )
    return found


def _slice_by_size(questions: list[RankedQuestion], ranks_SN: NDArray[np.integer]) -> Breakdown:
    sizes = np.asarray([question.size for question in questions])
    rows = []
    for low, high in SIZES:
        chosen = (sizes >= low) & (sizes <= high)
        if chosen.any():
            own = ranks_SN[:, chosen]
            name = f"{low} or more" if high == SIZES[-1][1] else f"{low} to {high}"
            rows.append(
                [
                    name,
                    f"{chosen.sum():,}",
                    format_mean((100 / own).ravel()),
                    format_mean(100.0 * (own == 1).ravel()),
                ]
            )
    header = ["candidates", "questions", "MRR", "right one first, %"]
    note = "Questions with a right candidate. Means over seeds."
    return Breakdown("By number of candidates", header, rows, note)


def _list_worst(questions: list[RankedQuestion]) -> Breakdown:
    def measure(question: RankedQuestion) -> float:
        return float(np.mean([1 / rank for rank in question.ranks]))

    rows = [
        [
            str(question.number),
            str(question.size),
            ", ".join(map(str, question.right)),
            str(question.first),
            ", ".join(map(str, question.ranks)),
            f"{measure(question):.3f}",
        ]
        for question in sorted(questions, key=measure)[:MOST_EXAMPLES]
    ]
    header = ["question", "candidates", "right rows", "row ranked first by most seeds"]
    header += ["rank of the best right row, by seed", "mean 1 / rank"]
    note = "Numbers of questions and rows in the official file, from 0."
    return Breakdown("Worst questions", header, rows, note)
