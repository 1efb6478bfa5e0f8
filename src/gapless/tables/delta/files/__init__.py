"""Data files, change files and deletion vectors of Delta tables."""
