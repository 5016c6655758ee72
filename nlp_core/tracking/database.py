"""Check what a path is before MLflow opens it as its database."""

import sqlite3
from contextlib import closing
from pathlib import Path

from nlp_core.errors import UsageError

SQLITE = b"SQLite format 3\0"
"""How its files begin."""
TABLES = {"alembic_version", "experiments"}
"""MLflow's databases have at least one of them."""


def check_database(path: Path) -> None:
    """Raise for what is not MLflow's database.

    MLflow tries for minutes to open what is not SQLite, and adds tables to other programs.
    """
    if path.is_file():
        with path.open("rb") as file:
            begin = file.read(len(SQLITE))
    found = None
    if path.exists() and not (path.is_file() and begin in (b"", SQLITE)):
        found = "something other than an SQLite file"
    elif path.exists():
        found = _find_fault(path)
    if found:
        raise UsageError(f"{path}: found {found}; name a new file or MLflow's with --database.")


def _find_fault(path: Path) -> str | None:
    """Return what an SQLite file is if MLflow cannot use it."""
    try:
        with closing(sqlite3.connect(path)) as database:
            names = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
    except sqlite3.OperationalError:  # such as a lock, for which MLflow waits
        return None
    except sqlite3.DatabaseError:
        return "a damaged SQLite file"
    return "the database of another program" if names and not names & TABLES else None
