"""Rows compared by value: keys, and what changed between two sets of rows."""
