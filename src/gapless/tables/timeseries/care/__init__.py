"""Maintenance of time-series tables: compaction, expiry, vacuum, restore."""
