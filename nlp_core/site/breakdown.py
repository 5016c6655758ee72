"""Where a cell is wrong, from its predictions: confusions, slices and worst examples.

No text of a corpus is in the repository, so an example is named by its row in the official file.
Counts are over all seeds, scores are means of the seeds' scores.

Shape letters: S seeds, N examples or questions, L labels.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import eq
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nlp_core.kinds import KINDS, Kind
from nlp_core.metrics import count_confusions
from nlp_core.metrics.classification import Confusion
from nlp_core.metrics.ranking import restore_order
from nlp_core.metrics.retrieval import score_queries
from nlp_core.report.examples import Runs

MOST_EXAMPLES = 20
UNBOUNDED = 10**9
SIZES = ((1, 5), (6, 10), (11, 20), (21, UNBOUNDED))
"""Smallest and largest number of candidates of each slice of questions."""
LENGTHS = ((1, 5), (6, 10), (11, 20), (21, 40), (41, UNBOUNDED))
"""Fewest and most tokens or words of each slice."""
RANKS = ((1, 1), (2, 5), (6, 10), (11, 100), (101, UNBOUNDED))
"""First and last rank of each slice of queries."""
RIGHT = "right, %"
GAPS = ("", "-")
SEEDS_AGREE = "Do seeds agree?"
ROWS = "Rows are numbered from 0."
CONFIDENCES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
"""Upper bounds of the slices by confidence, without that of the last."""


@dataclass(frozen=True)
class Breakdown:
    """A table of texts and numbers; a matrix has the share of each cell in its row, 0 to 1."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    shares: Sequence[Sequence[float]] = field(default_factory=list)

    @property
    def columns(self) -> list[tuple[str, bool]]:
        """The name of each column, and whether it has only numbers and gaps."""
        columns = zip(*self.rows, strict=True)
        flags = [all(is_number(text) or text in GAPS for text in column) for column in columns]
        return list(zip(self.header, flags, strict=True))


Slicer = Callable[[str, Sequence[int], NDArray[np.generic]], list[Breakdown]]
"""Takes the name of a score, the rows of N examples and their scores, [S, N]; returns a table for
each trait of the examples."""


def is_number(text: str) -> bool:
    """Whether a text is a number such as `1,024` or `-0.5`."""
    return text.replace(",", "").replace(".", "", 1).lstrip("+-").isdigit()


def break_down_labels(runs: Runs, slice_scores: Slicer) -> list[Breakdown]:
    """Return the tables of a task with one label for each example, or several."""
    write = partial(_write, KINDS.get(runs.task.kind))
    answers = [(map(write, run.target), map(write, run.prediction)) for run in runs.predictions]
    right_SN = np.asarray([[*map(eq, *pair)] for pair in answers])
    found = []
    scores_SNL = None
    if KINDS.get(runs.task.kind).has_confusion:
        crossed = [count_confusions(run) for run in runs.predictions]
        found += [_cross(crossed), _slice_by_label(runs.task.labels, crossed)]
        scores = [run.score for run in runs.predictions if run.score is not None]
        if len(scores) == len(right_SN):
            scores_SNL = np.asarray(scores)
            found.append(_slice_by_confidence(runs, scores_SNL.max(2), right_SN))
    found += [*slice_scores(RIGHT, runs.ids, 100 * right_SN), count_right_seeds(right_SN)]
    return [*found, _list_wrong(runs, scores_SNL, right_SN)]


def break_down_numbers(runs: Runs, slice_scores: Slicer) -> list[Breakdown]:
    """Return the examples of a regression whose predictions are furthest off."""
    target_N = np.asarray(runs.predictions[0].target, float)
    found_SN = np.asarray([run.prediction for run in runs.predictions], float)
    error_SN = np.abs(found_SN - target_N)
    error_N = error_SN.mean(0)
    rows = [
        [
            str(runs.ids[idx]),
            f"{target_N[idx]:.2f}",
            f"{found_SN[:, idx].mean():.2f}",
            f"{error_N[idx]:.2f}",
        ]
        for idx in np.argsort(-error_N, kind="stable")[:MOST_EXAMPLES]
    ]
    header = ["row", "right", "predicted, mean", "error, mean"]
    if len(found_SN) == 1:
        header[2:] = ["predicted", "error"]
    note = "The error is the distance of prediction and right number."
    note = note_seeds(note, len(found_SN))
    worst = Breakdown("Furthest from the right number", header, rows, note)
    return [*slice_scores(header[-1], runs.ids, error_SN), worst]


def count_right_seeds(right_SN: NDArray[np.bool_], units: str = "examples") -> Breakdown:
    """Return how many examples no seed, one seed ... or all seeds predict right."""
    num_seeds, num_examples = right_SN.shape
    counts = np.bincount(right_SN.sum(0), minlength=num_seeds + 1)
    rows = [
        [f"{idx} of {num_seeds}", f"{count:,}", f"{100 * count / num_examples:.1f}"]
        for idx, count in enumerate(counts)
    ]
    return Breakdown(SEEDS_AGREE, ["seeds that are right", units, "%"], rows)


def name_range(low: int, high: int) -> str:
    if low == high:
        return str(low)
    return f"{low} or more" if high == UNBOUNDED else f"{low} to {high}"


def note_seeds(note: str, num_seeds: int, what: str = "Means") -> str:
    """Return a note that also says what is over seeds, if there are several."""
    return f"{note} {what} over seeds.".lstrip() if num_seeds > 1 else note


def count_seeds(text: str, count: int, num_seeds: int) -> str:
    """Return a text with the number of seeds that it is true of, if there are several."""
    return f"{text} ({count})" if num_seeds > 1 else text


def format_mean(values: Iterable[float]) -> str:
    return f"{np.mean(list(values)):.2f}"


def measure_f1(hits: int, found: int, right: int) -> tuple[float, float, float]:
    """Return precision, recall and F1 in points; 0 where nothing is counted."""
    both = found + right
    return (
        100 * hits / found if found else 0.0,
        100 * hits / right if right else 0.0,
        200 * hits / both if both else 0.0,
    )


def _write(kind: Kind, answer: object) -> str:
    """Return an answer as text: a label, several in alphabetical order, or a sequence as it is."""
    if not isinstance(answer, list):
        return str(answer)
    labels = [*map(str, answer)]
    return ", ".join(sorted(labels) if kind.has_several_labels else labels)


def _cross(crossed: Sequence[Confusion]) -> Breakdown:
    labels, counts = crossed[0].labels, sum(item.counts for item in crossed)
    assert not isinstance(counts, int), labels
    sums = np.maximum(counts.sum(1, keepdims=True), 1)
    rows = [[label, *(f"{n:,}" for n in row)] for label, row in zip(labels, counts, strict=True)]
    note = "A row for each right label, a column for each predicted one."
    note = note_seeds(note, len(crossed), "Sums")
    shares = (counts / sums).tolist()
    return Breakdown("Confusion matrix", ["right / predicted", *labels], rows, note, shares)


def _slice_by_label(labels: Sequence[str], crossed: Sequence[Confusion]) -> Breakdown:
    counts_SLL = np.stack([item.counts for item in crossed])
    hits_SL, right_SL = counts_SLL.diagonal(0, 1, 2), counts_SLL.sum(2)
    rows = []
    for idx, label in enumerate(labels):
        seeds = zip(hits_SL[:, idx], counts_SLL[:, :, idx].sum(1), right_SL[:, idx], strict=True)
        shown = map(format_mean, zip(*(measure_f1(*seed) for seed in seeds), strict=True))
        rows.append([str(label), f"{right_SL[0, idx]:,}", *shown])
    header = ["label", "examples", "precision", "recall", "F1"]
    return Breakdown("By label", header, rows, note_seeds("", len(crossed)))


def _slice_by_confidence(
    runs: Runs, confidence_SN: NDArray[np.floating], right_SN: NDArray[np.bool_]
) -> Breakdown:
    slices_SN = np.digitize(confidence_SN, CONFIDENCES)
    bounds = [0.0, *CONFIDENCES, 1.0]
    rows = []
    for idx in np.unique(slices_SN):
        chosen = slices_SN == idx
        rows.append(
            [
                f"{bounds[idx]:g} to {bounds[idx + 1]:g}",
                f"{chosen.sum():,}",
                f"{100 * confidence_SN[chosen].mean():.1f}",
                f"{100 * right_SN[chosen].mean():.1f}",
            ]
        )
    header = ["probability of the prediction", "predictions", "mean probability, %", RIGHT]
    note = "Of a calibrated model the last two columns are equal."
    note = note_seeds(note, len(runs.predictions), "Sums and means")
    return Breakdown("By confidence", header, rows, note)


def _list_wrong(
    runs: Runs, scores_SNL: NDArray[np.floating] | None, right_SN: NDArray[np.bool_]
) -> Breakdown:
    """Return the examples that most seeds predict wrong, the surest ones first."""
    target, write = runs.predictions[0].target, partial(_write, KINDS.get(runs.task.kind))
    chance_N = np.zeros(len(target))
    if scores_SNL is not None:
        number = {label: idx for idx, label in enumerate(runs.task.labels)}
        places = np.array([number.get(str(label), -1) for label in target])
        chance_N = scores_SNL.mean(0)[np.arange(len(places)), places]
        chance_N[places < 0] = 0.0  # which training never saw
    wrong_N, num_seeds = (~right_SN).sum(0), len(right_SN)
    rows = []
    for idx in np.lexsort((np.arange(len(wrong_N)), chance_N, -wrong_N))[:MOST_EXAMPLES]:
        if not wrong_N[idx]:
            break
        answers = Counter(write(run.prediction[idx]) for run in runs.predictions)
        pairs = answers.most_common()
        shown = "; ".join(count_seeds(answer, count, num_seeds) for answer, count in pairs)
        row = [str(runs.ids[idx]), write(target[idx]), shown]
        row += [f"{wrong_N[idx]}"] if num_seeds > 1 else []
        rows.append(row if scores_SNL is None else [*row, f"{100 * chance_N[idx]:.1f}"])
    header, chance = ["row", "right", "predicted"], "probability of the right label, %"
    firsts = []
    if num_seeds > 1:
        header, chance = ["row", "right", "predicted (seeds)", "seeds wrong"], f"mean {chance}"
        firsts = ["those that most seeds get wrong"]
    if scores_SNL is not None:
        header.append(chance)
        firsts.append("those with the least probability of the right label")
    note = f"{ROWS} First come {', then '.join(firsts)}." if firsts else ROWS
    return Breakdown("Worst examples", header, rows, note)


class RankedQuestion(NamedTuple):
    """A question with a right candidate.

    Attributes:
        start: row number of its first candidate.
        size: how many candidates it has.
        right: row numbers of the right ones.
        ranks: of the first right candidate, by seed; equal scores rank it last.
        first: row number of the candidate that most seeds rank first.
    """

    number: int
    start: int
    size: int
    right: list[int]
    ranks: list[int]
    first: int

    @property
    def mean_reciprocal(self) -> float:
        return float(np.mean([1 / rank for rank in self.ranks]))


def break_down_ranking(runs: Runs, slice_scores: Slicer) -> list[Breakdown]:
    """Return the tables of a task that ranks candidates."""
    questions = list_questions(runs)
    ranks_SN = np.asarray([question.ranks for question in questions]).T
    return [
        _slice_by_size(questions, ranks_SN),
        *slice_scores("MRR", [question.start for question in questions], 100 / ranks_SN),
        count_right_seeds(ranks_SN == 1, "questions"),
        _list_worst_questions(questions),
    ]


def list_questions(runs: Runs) -> list[RankedQuestion]:
    """Return the questions that have a right candidate, in the order of their numbers."""
    first = runs.predictions[0]
    assert first.group is not None, runs.task.kind
    relevant = first.relevant
    order = np.argsort(first.group, kind="stable")
    starts = np.flatnonzero(np.diff(first.group[order])) + 1
    found_scores = (run.score for run in runs.predictions if run.score is not None)
    scores = np.asarray([*map(restore_order, found_scores)])
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
                runs.ids[rows[0]],
                len(rows),
                [runs.ids[row] for row in rows[right]],
                ranks.tolist(),
                runs.ids[tops.most_common(1)[0][0]],
            )
        )
    return found


def break_down_retrieval(runs: Runs, slice_scores: Slicer) -> list[Breakdown]:
    """Return the tables of a task that finds passages for queries."""
    best_SN = np.stack([1 / score_queries(f"mrr@{UNBOUNDED}", run) for run in runs.predictions])
    rows = []
    for low, high in RANKS:
        chosen_SN = (best_SN >= low - 0.5) & (best_SN < high + 0.5)
        rows.append([name_range(low, high), f"{chosen_SN.sum():,}", format_mean(100.0 * chosen_SN)])
    header = ["rank", "queries", "%"]
    note = note_seeds("The best right passage of each query.", len(best_SN), "Sums and means")
    by_rank = Breakdown("By rank of the right passage", header, rows, note)
    return [by_rank, *slice_scores("MRR", _list_starts(runs), 100 / best_SN)]


def _list_starts(runs: Runs) -> list[int]:
    """Return the first row of each query with a right passage, in the order of their scores."""
    first = runs.predictions[0]
    assert first.group is not None, runs.task.kind
    queries, starts = np.unique(first.group, return_index=True)
    answered = np.isin(queries, first.group[first.relevant])
    return [runs.ids[idx] for idx in starts[answered]]


def _slice_by_size(questions: list[RankedQuestion], ranks_SN: NDArray[np.integer]) -> Breakdown:
    sizes = np.asarray([question.size for question in questions])
    rows = []
    for low, high in SIZES:
        chosen = (sizes >= low) & (sizes <= high)
        if chosen.any():
            own = ranks_SN[:, chosen].ravel()
            scores = [format_mean(100 / own), format_mean(100.0 * (own == 1))]
            rows.append([name_range(low, high), f"{chosen.sum():,}", *scores])
    header = ["candidates", "questions", "MRR", "right one first, %"]
    note = note_seeds("Questions with a right candidate.", len(ranks_SN))
    return Breakdown("By number of candidates", header, rows, note)


def _list_worst_questions(questions: list[RankedQuestion]) -> Breakdown:
    rows = [
        [
            str(question.number),
            str(question.size),
            ", ".join(map(str, question.right)),
            str(question.first),
            ", ".join(map(str, question.ranks)),
            f"{question.mean_reciprocal:.3f}",
        ]
        for question in sorted(questions, key=lambda item: item.mean_reciprocal)[:MOST_EXAMPLES]
    ]
    header = ["question", "candidates", "right rows", "row ranked first"]
    header += ["rank of the best right row", "1 / rank"]
    if any(len(question.ranks) > 1 for question in questions):
        first, rank, score = header[3:]
        header[3:] = [f"{first} by most seeds", f"{rank}, by seed", f"mean {score}"]
    note = "Questions and rows are numbered from 0."
    return Breakdown("Worst questions", header, rows, note)
