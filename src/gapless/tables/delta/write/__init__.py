"""Appends, overwrites, deletes and updates of Delta tables."""
