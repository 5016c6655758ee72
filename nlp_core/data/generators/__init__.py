"""Further generators of sample data, a file for each; see nlp_core/data/sample.py."""
