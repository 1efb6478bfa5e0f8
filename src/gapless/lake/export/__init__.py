"""Snapshots of lake tables, described for readers of Delta or Iceberg."""
