"""Streams into and out of tables, exactly once."""
