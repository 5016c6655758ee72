"""The names that people give to things in the files that they write."""

from typing import Annotated

from pydantic import Field

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
"""Small letters, digits and underscores, a letter first."""
