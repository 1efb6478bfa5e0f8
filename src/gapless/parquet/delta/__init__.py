"""Data files of Delta tables: rows in, files out, and back."""
