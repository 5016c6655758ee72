"""The command `reglue`: train and use models, reproduce tables, inspect a project."""

from nlp_core.cli.program import main

__all__ = ["main"]
