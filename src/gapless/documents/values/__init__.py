"""BSON's values in Python: their types, and their order."""
