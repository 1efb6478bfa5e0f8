"""Rows of Delta tables as documents: found by MongoDB's filters."""
