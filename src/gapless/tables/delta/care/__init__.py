"""Maintenance of Delta tables: OPTIMIZE, VACUUM, RESTORE, checkpoints, verify."""
