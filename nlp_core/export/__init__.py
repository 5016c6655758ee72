"""Trained models as bundles that run without torch, and how fast they are."""
