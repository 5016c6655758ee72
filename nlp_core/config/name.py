"""The names that people give to things in the files that they write."""

from typing import Annotated

from pydantic import Field

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
"""Small letters, digits and underscores, a letter first."""
PATH_PART = r"[A-Za-z0-9_][A-Za-z0-9_.+-]*"
FileName = Annotated[str, Field(pattern=rf"^{PATH_PART}$")]
CELLS = "artifacts/cells/"
"""Where cells are: trained, pretrained or exported; below it a folder for each table."""
CELL = "cell.json"
"""The description of a cell, written last."""
SEED = "seed-"
"""The folder of a seed of a cell, with its number."""
CellFolder = Annotated[str, Field(pattern=rf"^{CELLS}[a-z][a-z0-9_]*/[a-z][a-z0-9_]*$")]


def name_folder(table: str, cell: str) -> str:
    """Return the folder of a cell, from the project's root."""
    return f"{CELLS}{table}/{cell}"
