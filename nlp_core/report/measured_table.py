"""The tables of a project, and a table's published numbers compared with ours."""

from pathlib import Path

from nlp_core.config.published import read_published
from nlp_core.report.comparison import Comparison, compare
from nlp_core.report.results import Results, read_results


def list_tables(root: Path) -> list[str]:
    """Return the tables that have published numbers, sorted."""
    return sorted(path.stem for path in (root / "reports" / "published").glob("*.yaml"))


def is_measured(table: str, root: Path) -> bool:
    """Say whether there are results of a table."""
    return _find_results(table, root).exists()


def read_comparison(table: str, root: Path, *, allow_missing: bool = False) -> Comparison:
    """Read the published and the measured numbers of a table and compare them.

    Args:
        allow_missing: whether a table without results has nothing measured, or is an error.

    Raises:
        ConfigError: reports/published/<table>.yaml is missing or wrong.
        DataError: results/<table>.json is missing or is no results file.
    """
    published = read_published(root / "reports" / "published" / f"{table}.yaml")
    if allow_missing and not is_measured(table, root):
        return compare(published, Results(table=table, cells={}))
    return compare(published, read_results(_find_results(table, root)))


def _find_results(table: str, root: Path) -> Path:
    return root / "results" / f"{table}.json"
