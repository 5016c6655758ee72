"""The golden numbers of a table: our own, exact, so that a change that moves one is noticed."""

from pathlib import Path

from nlp_core.errors import DataError
from nlp_core.files import write_json
from nlp_core.report.results import Record, Results, read_record, read_results


class GoldenCell(Record):
    """The values of each metric of a cell, in the order of its seeds."""

    seeds: list[int]
    metrics: dict[str, list[float]]


class Golden(Record):
    """The content of reports/golden/<table>.json."""

    numerics: int
    cells: dict[str, GoldenCell]


def collect_golden(results: Results) -> Golden:
    """Return the numbers of a table as they are to be kept.

    Raises:
        DataError: the results have no cells.
    """
    if not results.cells:
        raise DataError(f"results/{results.table}.json: found no cells, expected at least one.")
    numerics = {cell.numerics for cell in results.cells.values()}
    assert len(numerics) == 1, f"{results.table}: cells of several numerics {sorted(numerics)}"
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
    found = collect_golden(results).cells
    differences = [f"{name}: not in the golden file" for name in found if name not in golden.cells]
    for name, expected in golden.cells.items():
        if name not in found:
            differences.append(f"{name}: not in the results")
        elif found[name].seeds != expected.seeds:
            differences.append(f"{name}: seeds {found[name].seeds}, golden {expected.seeds}")
        else:
            differences += _compare_metrics(name, found[name], expected)
    return sorted(differences)


def check_golden(table: str, root: Path) -> None:
    """Refuse results that differ from the golden numbers of a table.

    Raises:
        DataError: a number moved, or a file is missing; each difference is named.
    """
    path = root / "reports" / "golden" / f"{table}.json"
    command = f"python -m stages.report {table} --accept-golden"
    results = read_results(root / "results" / f"{table}.json")
    if not path.exists():
        raise DataError(f"{path}: there is no such file; keep the numbers of now with `{command}`.")
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
    """Keep the numbers of a table as its golden ones.

    Raises:
        DataError: results/<table>.json is missing, or has no cells.
    """
    golden = collect_golden(read_results(root / "results" / f"{table}.json"))
    write_json(root / "reports" / "golden" / f"{table}.json", golden.model_dump())


def _compare_metrics(name: str, found: GoldenCell, expected: GoldenCell) -> list[str]:
    return [
        f"{name}: {key}: {_name(found.metrics.get(key))}, golden {_name(expected.metrics.get(key))}"
        for key in sorted({*found.metrics, *expected.metrics})
        if found.metrics.get(key) != expected.metrics.get(key)
    ]


def _name(values: list[float] | None) -> str:
    return "none" if values is None else f"{values}"
