"""Cells of text files as values of column types."""
