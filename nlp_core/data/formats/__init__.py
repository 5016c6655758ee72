"""The formats of sources: each module has a reader, and is found when a source names its format."""
