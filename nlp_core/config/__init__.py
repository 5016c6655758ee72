"""Closed models of every file that a person writes."""
