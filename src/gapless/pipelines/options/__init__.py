"""The options of sources and sinks: one table of each type, and their values read."""
