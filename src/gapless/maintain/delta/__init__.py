"""Upkeep of Delta tables: pure plans of compaction, vacuum and restore, and what they need of the store."""
