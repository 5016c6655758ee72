"""An audit of data: repeated examples, overlap with train, conflicting labels, shifts."""
