"""Sessions, options and executors."""
