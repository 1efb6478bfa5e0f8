"""Upsert, update, delete and replace, by copy-on-write."""
