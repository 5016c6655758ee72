"""The training of a run, of a cell or on the user's files: loop, optimiser, schedule, resume."""
