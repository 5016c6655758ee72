"""Sources, readers, examples, vocabularies and batches."""
