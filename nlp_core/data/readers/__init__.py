"""Readers, one file a format: official bytes to examples or one clear refusal."""
