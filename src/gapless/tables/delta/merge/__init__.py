"""MERGE into Delta tables."""
