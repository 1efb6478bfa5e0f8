"""Sources of runs that other libraries define."""
