"""Appends to time-series tables: staged, checked for overlap, committed, in groups."""
