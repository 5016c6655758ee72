"""The stages of the DAG: one thin script each, started as python -m stages.NAME."""
