"""The log engine: listing to snapshot, staged changes to commit. It knows no dialect and does no I/O."""
