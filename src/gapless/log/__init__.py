"""The log engine: listing to snapshot, staged changes to commit. It knows no table format and does no I/O."""
