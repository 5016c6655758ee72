"""Results to verdicts, tables and figures."""
