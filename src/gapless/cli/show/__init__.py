"""What the command line shows: rows, values, coverage, errors and progress."""
