"""Which scores moved: between two states of results/, and from the golden numbers of a table.

Golden numbers are our own, exact, so that a change of code that moves one is noticed.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from nlp_core.errors import ConfigError, DataError
from nlp_core.files import write_json
from nlp_core.report.comparison import find_interval
from nlp_core.report.results import (
    Record,
    Results,
    Score,
    parse_record,
    read_record,
    read_results,
)
from nlp_core.statistics import Interval


class ScoreChange(NamedTuple):
    """A metric of a cell whose values moved, appeared or vanished.

    Attributes:
        metric: such as `test.f1`.
        interval: the 95 % confidence interval of the difference of the means, if there is one.
    """

    table: str
    cell: str
    metric: str
    before: Score | None
    after: Score | None
    interval: Interval | None


class GoldenCell(Record):
    """The values of each metric of a cell, in the order of its seeds."""

    seeds: list[int]
    metrics: dict[str, list[float]]


class Golden(Record):
    """The content of reports/golden/<table>.json."""

    numerics: int
    cells: dict[str, GoldenCell]


def read_revision(root: Path, revision: str | None) -> dict[str, Results]:
    """Return the results of all tables at a commit, or as the files are now.

    Raises:
        ConfigError: git knows no such commit.
        DataError: a results file is damaged.
    """
    if revision is None:
        paths = sorted((root / "results").glob("*.json"))
        return {path.stem: read_results(path.stem, root) for path in paths}
    listed = _run_git(root, "ls-tree", "--name-only", revision, "results/").decode().split()
    found = {}
    for path in sorted(Path(name) for name in listed if name.endswith(".json")):
        content = _run_git(root, "show", f"{revision}:./{path}")
        command = f"dvc repro evaluate@{path.stem}"
        found[path.stem] = parse_record(content, path, Results, command=command)
    return found


def list_moved(before: dict[str, Results], after: dict[str, Results]) -> Iterator[ScoreChange]:
    """Yield each reported score that differs, in the order of tables, cells and metrics.

    Scores on other splits than the reported one are left out.
    """
    for table in sorted({*before, *after}):
        old, new = (state[table].cells if table in state else {} for state in (before, after))
        for cell in sorted({*old, *new}):
            scores = [cells[cell].reported if cell in cells else {} for cells in (old, new)]
            for metric in sorted({*scores[0], *scores[1]}):
                one, two = (found.get(metric) for found in scores)
                if one is None or two is None or one.values != two.values:
                    interval = find_interval(two, one) if one and two else None
                    yield ScoreChange(table, cell, metric, one, two, interval)


def _run_git(root: Path, *arguments: str) -> bytes:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True)
    if done.returncode:
        message = done.stderr.decode().strip().removeprefix("fatal: ")
        raise ConfigError(f"git {' '.join(arguments)}: {message}. Name a commit of this project.")
    return done.stdout


def collect_golden(results: Results) -> Golden:
    """Return the numbers of a table to keep.

    Raises:
        DataError: it has no cells, or cells of several `numerics`.
    """
    if not results.cells:
        raise DataError(f"results/{results.table}.json: found no cells, expected at least one.")
    numerics = {cell.numerics for cell in results.cells.values()}
    if len(numerics) > 1:
        raise DataError(
            f"results/{results.table}.json: found cells of the numerics {sorted(numerics)}, "
            "expected one; train and measure the older cells again, then keep the numbers."
        )
    return Golden(
        numerics=numerics.pop(),
        cells={
            name: GoldenCell(
                seeds=cell.seeds,
                metrics={key: score.values for key, score in sorted(cell.metrics.items())},
            )
            for name, cell in sorted(results.cells.items())
        },
    )


def compare_golden(results: Results, golden: Golden) -> list[str]:
    """Return how the results differ from the golden numbers, one line a difference.

    Numbers are compared exactly, as the 6 places that results hold.
    """
    cells, differences = collect_golden(results).cells, []
    for name in {*cells, *golden.cells}:
        found, expected = cells.get(name), golden.cells.get(name)
        if expected is None:
            differences.append(f"{name}: not in the golden file")
        elif found is None:
            differences.append(f"{name}: not in the results")
        elif found.seeds != expected.seeds:
            differences.append(f"{name}: seeds {found.seeds}, golden {expected.seeds}")
        else:
            for key in {*found.metrics, *expected.metrics}:
                was, now = expected.metrics.get(key, "none"), found.metrics.get(key, "none")
                if was != now:
                    differences.append(f"{name}: {key}: {now}, golden {was}")
    return sorted(differences)


def check_golden(table: str, root: Path) -> None:
    """Raise if the results of a table differ from its golden numbers.

    Raises:
        DataError: a number moved, or a file is missing; each difference is named.
    """
    path = root / "reports" / "golden" / f"{table}.json"
    command = f"python -m stages.report {table} --accept-golden"
    results = read_results(table, root)
    if not path.exists():
        raise DataError(f"{path}: no such file; keep the numbers of now with `{command}`.")
    golden = read_record(path, Golden, command=command)
    differences = compare_golden(results, golden)
    if not differences:
        return
    listed = "; ".join(differences)
    raised = golden.numerics != collect_golden(results).numerics
    advice = (
        "'numerics' was raised; if the change was meant"
        if raised
        else "If the change was meant, raise 'numerics' in params.yaml (every trained cell depends "
        "on it), train again"
    )
    raise DataError(
        f"{path}: a number moved: {listed}. {advice}, say so in CHANGELOG.md and keep the new "
        f"numbers with `{command}`. If `reglue doctor` says that this machine computes "
        "differently, change nothing."
    )


def accept_golden(table: str, root: Path) -> None:
    """Keep the numbers of a table as its golden ones."""
    golden = collect_golden(read_results(table, root))
    write_json(root / "reports" / "golden" / f"{table}.json", golden.model_dump())
