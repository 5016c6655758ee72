"""Readers, one file per format: from official bytes to examples or one clear error."""
