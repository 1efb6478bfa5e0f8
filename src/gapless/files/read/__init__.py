"""Read plans back to Arrow: which row groups and pages, and in which order."""
