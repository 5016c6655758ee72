"""The training of one cell: loop, optimiser, schedule, resume."""
