"""Which scores moved between two states of results/, with the interval of each difference."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from nlp_core.errors import ConfigError
from nlp_core.report.gain import find_interval
from nlp_core.report.results import CellResult, Results, Score, parse_results, read_results
from nlp_core.statistics import Interval


class ScoreChange(NamedTuple):
    """A metric of a cell whose values moved, appeared or vanished.

    Attributes:
        cell: name of the cell.
        metric: name of the metric, such as `test.f1`.
        before: the score in the first state; None where there was none.
        after: the score in the second state; None where there is none.
        interval: the 95 % confidence interval of the difference of the means; None without one.
    """

    table: str
    cell: str
    metric: str
    before: Score | None
    after: Score | None
    interval: Interval | None


def read_revision(root: Path, revision: str | None) -> dict[str, Results]:
    """Return the results of all tables as a commit has them.

    Args:
        root: the project's root, a git repository.
        revision: anything git takes for a commit; None: the files as they are now.

    Raises:
        ConfigError: git knows no such commit.
        DataError: a results file is damaged.
    """
    if revision is None:
        paths = sorted((root / "results").glob("*.json"))
        return {path.stem: read_results(path) for path in paths}
    listed = _run_git(root, "ls-tree", "--name-only", revision, "results/").decode().split()
    names = sorted(name for name in listed if name.endswith(".json"))
    return {
        Path(name).stem: parse_results(_run_git(root, "show", f"{revision}:{name}"), Path(name))
        for name in names
    }


def list_moved(before: dict[str, Results], after: dict[str, Results]) -> Iterator[ScoreChange]:
    """Yield each reported score that differs, in the order of tables, cells and metrics.

    Scores on other splits than the reported one are left out.
    """
    for table in sorted({*before, *after}):
        old, new = (state[table].cells if table in state else {} for state in (before, after))
        for cell in sorted({*old, *new}):
            scores = [_list_reported(cells[cell]) if cell in cells else {} for cells in (old, new)]
            for metric in sorted({*scores[0], *scores[1]}):
                one, two = (found.get(metric) for found in scores)
                if one is None or two is None or one.values != two.values:
                    interval = find_interval(two, one) if one and two else None
                    yield ScoreChange(table, cell, metric, one, two, interval)


def _list_reported(cell: CellResult) -> dict[str, Score]:
    splits = {task.report_split for task in cell.tasks.values()}
    return {
        name: score
        for name, score in cell.metrics.items()
        if splits & set(name.split(".")) or not splits
    }


def _run_git(root: Path, *arguments: str) -> bytes:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True)
    if done.returncode:
        message = done.stderr.decode().strip().removeprefix("fatal: ")
        raise ConfigError(f"git {' '.join(arguments)}: {message}. Name a commit of this project.")
    return done.stdout
